//! Deployments for a run: reads them, and says all that is wrong with them.

use crate::failure::Failure;
use crate::shape;
use gswarm_core::Instance;
use gswarm_core::deploy::file::{DeploymentFault, DeploymentFile};
use gswarm_core::input::{Code, Diagnostic, Source, render};
use gswarm_core::instance::Deployment;
use serde_json::Value;

/// A deployment file of the right shape, with warnings.
///
/// # Errors
/// Every fault of its shape.
pub fn read_deployment_file(
    source: Source<'_>,
) -> Result<(DeploymentFile, Vec<Diagnostic>), Vec<Diagnostic>> {
    let (value, warnings) = shape::read(source, &deployment_schema())?;
    let file = serde_json::from_value(value)
        .map_err(|error| vec![Diagnostic::of_file(source.name, Code::WrongType, error.to_string())])?;
    Ok((file, warnings))
}

/// What a deployment file says is wrong for a problem, with lines.
#[must_use]
pub fn deployment_faults(source: Source<'_>, faults: &[DeploymentFault]) -> Vec<Diagnostic> {
    let located = faults.iter().map(|fault| Diagnostic {
        hint: fault.hint.clone(),
        ..shape::fault_at(source, &fault.path, fault.code, &fault.message)
    });
    located.collect()
}

/// The deployment in a file, for a problem.
///
/// # Errors
/// All that is wrong with it.
pub fn read_deployment(instance: &Instance, name: &str, bytes: &[u8]) -> Result<Deployment, Failure> {
    let source = Source { name, bytes };
    let failed = |faults: Vec<Diagnostic>| {
        let count = match faults.len() {
            1 => "1 fault".to_owned(),
            many => format!("{many} faults"),
        };
        Failure::input(format!("the deployment has {count}\n\n{}", render(&faults)))
            .hint("`gswarm help CODE` explains a code; `gswarm deploy` makes a deployment for these inputs")
            .about(faults)
    };
    let (file, _) = read_deployment_file(source).map_err(failed)?;
    file.resolve(instance).map_err(|faults| failed(deployment_faults(source, &faults)))
}

/// The JSON Schema of deployment files.
#[must_use]
pub fn deployment_schema() -> Value {
    schemars::schema_for!(DeploymentFile).to_value()
}
