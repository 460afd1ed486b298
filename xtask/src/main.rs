//! Development tasks of the repository.
fn main() {}
