//! `gswarm schema`: JSON Schemas of the files that gswarm reads and writes, and the OpenAPI document of its server.

use crate::failure::Failure;
use crate::output;
use clap::Args;
use clap::builder::TypedValueParser;
use gswarm_core::schema::SchemaKind;

const EXAMPLES: &str = "\
Examples:
  gswarm schema config > config.schema.json
  gswarm schema http                           the OpenAPI document of `gswarm serve`

For completion in an editor, begin a YAML file with
  # yaml-language-server: $schema=config.schema.json
or give a JSON file the key \"$schema\". Files written by `generate`, `import` and `plan` already have it.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SchemaArgs {
    /// The kind of file
    #[arg(value_parser = kind_parser())]
    kind: Wanted,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    File(SchemaKind),
    Backends,
    Spec,
    Deployment,
    Http,
}

fn kind_parser() -> impl TypedValueParser<Value = Wanted> {
    let files = SchemaKind::ALL.map(|kind| (kind.name(), Wanted::File(kind)));
    crate::args::choice(
        files
            .into_iter()
            .chain([("backends", Wanted::Backends), ("spec", Wanted::Spec)])
            .chain([("deployment", Wanted::Deployment), ("http", Wanted::Http)])
            .collect(),
    )
}

pub fn schema(args: &SchemaArgs) -> Result<(), Failure> {
    match args.kind {
        Wanted::File(kind) => output::print(kind.text()),
        Wanted::Backends => output::line(&format!("{:#}", gswarm_exec::backend::json_schema())),
        Wanted::Spec => output::line(&format!("{:#}", gswarm_run::RunSpec::schema())),
        Wanted::Deployment => output::line(&format!("{:#}", gswarm_run::deployment_schema())),
        Wanted::Http => {
            output::line(&gswarm_serve::front::openapi().to_pretty_json().map_err(Failure::internal)?)
        }
    }
}
