//! Tables of made-up runs.

use gswarm_learn::{Column, FitSettings, PredictorKind, Table, Values};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A stream of random numbers.
pub fn random(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// A number around zero with a deviation of about one: twelve uniform ones, less their mean.
pub fn normal(random: &mut impl Rng) -> f64 {
    (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
}

pub fn numbers(name: &str, values: Vec<f64>) -> Column {
    Column { name: name.to_owned(), values: Values::Numbers(values) }
}

pub fn texts(name: &str, values: &[&str]) -> Column {
    Column { name: name.to_owned(), values: values.iter().copied().collect() }
}

/// Runs whose time depends on size and device, with a noise of some percent that no feature tells of.
pub fn runs(rows: usize, noise: f64, seed: u64) -> Table {
    let mut random = random(seed);
    let devices = ["cpu", "gpu0", "gpu1"];
    let (mut sizes, mut on, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rows {
        let size = random.random_range(100.0..5_000.0);
        let device = devices[random.random_range(0..devices.len())];
        let rate = if device == "cpu" { 5e5 } else { 4e6 };
        sizes.push(size);
        on.push(device);
        seconds.push((0.05 + size * size / rate) * (normal(&mut random) * noise).exp());
    }
    Table::new("runs", vec![numbers("size", sizes), texts("device", &on), numbers("seconds", seconds)])
}

pub fn features() -> Vec<String> {
    vec!["size".to_owned(), "device".to_owned()]
}

pub fn column<'t>(table: &'t Table, name: &str) -> &'t [f64] {
    match &table.column(name).unwrap().values {
        Values::Numbers(numbers) => numbers,
        Values::Texts { .. } => panic!("{name} is text"),
    }
}

/// Few trees: tests are about what holds for any number of them.
pub fn small(kind: PredictorKind) -> FitSettings {
    FitSettings { trees: 30, depth: 6, ..FitSettings::new(kind) }
}
