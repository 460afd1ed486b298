//! Planning where models batch or share GPUs: how large each batch is, how many replicas of each model there are and where,
//! what stays on a GPU, and what is brought over while something else still runs.
//!
//! A [`Recipe`] holds the choices; [`compose::Compose`] turns it into a schedule in the engine itself, in about a microsecond a
//! task, so that whatever the engine allows (joining a running batch, loading beside an execution, memory for executions) is
//! reckoned as it will be. The search begins with every policy and a table of recipes, then anneals the best recipes on all
//! cores. What it finds becomes [`Steps`], and only what following those steps gives counts.

mod compose;
mod ground;
mod moves;
mod portfolio;
mod queues;
mod recipe;
mod search;

pub(super) use search::improve;
