//! Predictors of run times: trained from tables and from logs, asked, and kept as files.

use crate::apart::apart;
use crate::fault::{Fault, usage};
use crate::outcome::Outcome;
use gswarm_core::log_file::LogFile;
use gswarm_learn::model::{FitSettings, Predictor as Model, PredictorKind, encode};
use gswarm_learn::nodes;
use gswarm_learn::table::{Column, Table, Values};
use gswarm_learn::train::TrainOptions;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A column as Python has it.
#[derive(FromPyObject)]
pub enum Cells {
    Numbers(Vec<Option<f64>>),
    Texts(Vec<Option<String>>),
}

/// Columns by name, each of the same length.
type Columns = Vec<(String, Cells)>;

fn table(columns: Columns) -> Result<Table, Fault> {
    let length = |cells: &Cells| match cells {
        Cells::Numbers(numbers) => numbers.len(),
        Cells::Texts(texts) => texts.len(),
    };
    for (place, (name, cells)) in columns.iter().enumerate() {
        if columns[..place].iter().any(|(other, _)| other == name) {
            return Err(usage(format!("two columns are called `{name}`")));
        }
        if length(cells) != length(&columns[0].1) {
            return Err(usage(format!("column `{name}` differs in length from the first")));
        }
    }
    let column = |(name, cells): (String, Cells)| {
        let values = match cells {
            Cells::Numbers(all) => {
                Values::Numbers(all.into_iter().map(|one| one.unwrap_or(f64::NAN)).collect())
            }
            Cells::Texts(all) => all.iter().map(|one| one.as_deref().unwrap_or_default()).collect(),
        };
        Column { name, values }
    };
    Ok(Table::new("the data", columns.into_iter().map(column).collect()))
}

/// What is learned from.
#[derive(FromPyObject)]
pub enum Data {
    /// A run.
    Run(Py<Outcome>),
    /// A file: its name and its content.
    File((String, Vec<u8>)),
    /// A table.
    Columns(Columns),
}

/// What is to be trained.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct TrainArguments {
    kind: String,
    target: Option<String>,
    features: Option<Vec<String>>,
    leave_out: Vec<String>,
    allow_leaks: bool,
    seed: u64,
    trees: Option<usize>,
    depth: Option<usize>,
    learning_rate: Option<f64>,
    min_leaf: Option<usize>,
}

impl TrainArguments {
    fn read(self) -> Result<TrainOptions, Fault> {
        let kind = PredictorKind::of_name(&self.kind).ok_or_else(|| {
            let known: Vec<&str> = PredictorKind::ALL.iter().map(|kind| kind.name()).collect();
            usage(format!("kind is `{}`; there are {}", self.kind, known.join(", ")))
        })?;
        let usual = FitSettings::new(kind);
        let settings = FitSettings {
            trees: self.trees.unwrap_or(usual.trees),
            depth: self.depth.unwrap_or(usual.depth),
            learning_rate: self.learning_rate.unwrap_or(usual.learning_rate),
            min_leaf: self.min_leaf.unwrap_or(usual.min_leaf),
            seed: self.seed,
            ..usual
        };
        let rate = settings.learning_rate;
        if !(1..=10_000).contains(&settings.trees) || !(1..=40).contains(&settings.depth) {
            return Err(usage("give 1 to 10000 trees of a depth from 1 to 40"));
        }
        if !(rate > 0.0 && rate <= 1.0) || settings.min_leaf == 0 {
            return Err(usage("give a learning_rate above 0 and at most 1, and a min_leaf above 0"));
        }
        let target = self.target.as_deref().unwrap_or(nodes::TARGET);
        Ok(TrainOptions {
            features: self.features,
            leave_out: self.leave_out,
            allow_leaks: self.allow_leaks,
            ..TrainOptions::new(target, settings)
        })
    }
}

/// A predictor of run times.
#[pyclass(frozen, module = "gswarm._gswarm")]
pub struct Trained {
    model: Model,
}

/// Learns; the report is JSON.
#[pyfunction]
pub fn train(
    py: Python<'_>,
    data: Data,
    options: TrainArguments,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<(Trained, String)> {
    let mut options = options.read()?;
    let given = match data {
        Data::File((name, bytes)) => {
            nodes::Data::Table(py.detach(|| Table::read(&name, bytes)).map_err(Fault::Input)?)
        }
        Data::Columns(columns) => nodes::Data::Table(table(columns)?),
        Data::Run(run) => {
            let run = run.get();
            nodes::Data::Executions(py.detach(|| {
                let text = run.log_text(true)?;
                nodes::executions("the run", &LogFile::read_bytes(&text), &run.scenario).map_err(Fault::Input)
            })?)
        }
    };
    if let nodes::Data::Table(table) = &given {
        options.set_aside = gswarm_tasks::set_aside(table, &options.target);
    }
    apart(py, progress.as_ref(), false, move |shared| {
        let found = given.train(&options, &mut |doing| shared.say(doing, 0, 0)).map_err(Fault::Input)?;
        let report = serde_json::to_string(&found.report)?;
        Ok((Trained { model: found.predictor }, report))
    })
}

#[pymethods]
impl Trained {
    /// From the content of a model file.
    #[staticmethod]
    fn read(py: Python<'_>, name: &str, bytes: Vec<u8>) -> PyResult<Trained> {
        let model = py.detach(|| Model::from_bytes(name, &bytes)).map_err(Fault::Input)?;
        Ok(Trained { model })
    }

    /// The content of its file.
    fn content<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.model.to_bytes().map_err(Fault::from)?;
        Ok(PyBytes::new(py, &bytes))
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.model.kind().name()
    }

    #[getter]
    fn target(&self) -> &str {
        self.model.target()
    }

    #[getter]
    fn features(&self) -> Vec<String> {
        self.model.features().iter().map(|feature| feature.name.clone()).collect()
    }

    /// Means, and the quantiles that are asked for, of each row.
    fn predict(
        &self,
        py: Python<'_>,
        columns: Columns,
        quantiles: Vec<f64>,
    ) -> PyResult<(Vec<f64>, Vec<Vec<f64>>)> {
        let table = table(columns)?;
        py.detach(|| {
            let rows = encode(self.model.features(), &table).map_err(Fault::Input)?;
            let found = self.model.predict(&rows);
            let at = |p: &f64| found.iter().map(|one| self.model.quantile(one, p.clamp(0.0, 1.0))).collect();
            Ok((found.iter().map(|one| one.mean).collect(), quantiles.iter().map(at).collect()))
        })
    }
}
