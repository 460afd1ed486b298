//! One file a command; each is a thin call of the library.

pub mod advise;
pub mod bound;
pub mod calibrate;
pub mod check;
pub mod cli;
pub mod compare;
pub mod completions;
pub mod deploy;
pub mod diff;
pub mod explain;
pub mod fidelity;
pub mod generate;
pub mod help;
pub mod import;
pub mod init;
pub mod man;
pub mod model_server;
pub mod models;
pub mod plan;
pub mod policies;
pub mod report;
pub mod resume;
pub mod run;
pub mod sample;
pub mod schema;
pub mod serve;
pub mod size;
pub mod tasks;
pub mod top;
pub mod trace;
pub mod train;
pub mod validate;
pub mod view;

use crate::failure::Failure;
use cli::{Cli, Command};

/// Does what the command line says.
pub fn dispatch(cli: Cli) -> Result<(), Failure> {
    if let (Some(_), Some(folder)) = (&cli.command, &cli.sample.out) {
        return Err(Failure::input(format!("--out {} comes before the command", folder.display()))
            .hint("put it after the command"));
    }
    match cli.command {
        None => sample::sample(&cli.sample),
        Some(Command::Init(args)) => init::init(&args),
        Some(Command::Validate(args)) => validate::validate(&args),
        Some(Command::Run(args)) => run::run(&args),
        Some(Command::Resume(args)) => resume::resume(&args),
        Some(Command::Plan(args)) => plan::plan(&args),
        Some(Command::Bound(args)) => bound::bound(&args),
        Some(Command::Check(args)) => check::check(&args),
        Some(Command::Explain(args)) => explain::explain(&args),
        Some(Command::Compare(args)) => compare::compare(&args),
        Some(Command::Diff(args)) => diff::diff(&args),
        Some(Command::Report(args)) => report::report(&args),
        Some(Command::Trace(args)) => trace::trace(&args),
        Some(Command::Calibrate(args)) => calibrate::calibrate(&args),
        Some(Command::Fidelity(args)) => fidelity::fidelity(&args),
        Some(Command::Size(args)) => size::size(&args),
        Some(Command::Advise(args)) => advise::advise(&args),
        Some(Command::Deploy(args)) => deploy::deploy(&args),
        Some(Command::Generate(args)) => generate::generate(&args),
        Some(Command::Import(args)) => import::import(&args),
        Some(Command::Train(args)) => train::train(&args),
        Some(Command::Tasks(args)) => tasks::tasks(&args),
        Some(Command::FormerTasks(former)) => tasks::tasks(&former.into()),
        Some(Command::Models(args)) => models::models(&args),
        Some(Command::ModelServer(args)) => model_server::model_server(&args),
        Some(Command::Serve(args)) => serve::serve(&args),
        Some(Command::Top(args)) => top::top(&args),
        Some(Command::View(args)) => view::view(&args),
        Some(Command::Policies(args)) => policies::policies(&args),
        Some(Command::Schema(args)) => schema::schema(&args),
        Some(Command::Completions(args)) => completions::completions(&args),
        Some(Command::Man(args)) => man::man(&args),
        Some(Command::Help(args)) => help::help(&args),
    }
}
