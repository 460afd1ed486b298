//! The examples do what they say.

#[path = "../examples/custom_backend.rs"]
#[allow(dead_code, missing_docs)]
mod custom_backend;
#[path = "../examples/custom_policy.rs"]
#[allow(dead_code, missing_docs)]
mod custom_policy;
#[path = "../examples/embed_a_run.rs"]
#[allow(dead_code, missing_docs)]
mod embed_a_run;

#[test]
fn a_policy_of_ones_own_is_simulated_and_checked() {
    custom_policy::main().unwrap();
}

#[test]
fn a_backend_of_ones_own_runs_live() {
    custom_backend::main().unwrap();
}

#[test]
fn a_run_is_embedded() {
    embed_a_run::main().unwrap();
}
