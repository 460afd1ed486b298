//! The command as people run it: a process, its exit code, what it prints and the files it leaves.

mod beliefs;
mod check;
mod compare;
mod dashboard;
mod examples;
mod explain;
mod front;
mod full_disk;
mod generate;
mod import;
mod kills;
mod live;
mod model_server;
mod models;
mod optimum;
mod plan;
mod readme;
mod report;
mod run;
mod sample;
mod size;
mod support;
mod tasks;
mod train;
mod usage;
