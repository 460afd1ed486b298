//! Faults of a specification itself, before any file is read.

use crate::spec::RunSpec;
use gswarm_core::input::{Code, Diagnostic, MAX_GB, MAX_GPUS};
use gswarm_core::policy::PolicyKind;
use gswarm_core::time::MAX_SECONDS;

impl RunSpec {
    /// All faults of the specification by itself. Each names the field in its `path`; the file is empty.
    #[must_use]
    pub fn validate(&self) -> Vec<Diagnostic> {
        let mut faults = Faults::default();
        self.numbers(&mut faults);
        self.policy_fits(&mut faults);
        self.live_fits(&mut faults);
        faults.0
    }

    fn numbers(&self, faults: &mut Faults) {
        let cluster = &self.cluster;
        for (path, value) in
            [("cluster.gpus", cluster.gpus), ("cluster.gpus_per_server", cluster.gpus_per_server)]
        {
            if let Some(value) = value.filter(|value| !(1..=MAX_GPUS).contains(value)) {
                faults.add(Code::NotPositive, path, format!("{value}: give a number from 1 to {MAX_GPUS}"));
            }
        }
        for (path, value) in [
            ("cluster.gpu_memory_gb", cluster.gpu_memory_gb),
            ("cluster.pcie_gb_per_s", cluster.pcie_gb_per_s),
        ] {
            if let Some(value) = value.filter(|value| !(*value > 0.0 && *value <= MAX_GB)) {
                faults.add(
                    Code::NotPositive,
                    path,
                    format!("{value}: give a number above zero, up to {MAX_GB}"),
                );
            }
        }
        let seconds = |value: &f64| !(0.0..=MAX_SECONDS).contains(value);
        if let Some(value) = cluster.switch_overhead_seconds.filter(seconds) {
            let message = format!("{value}: give seconds from 0 to {MAX_SECONDS}");
            faults.add(Code::Negative, "cluster.switch_overhead_seconds", message);
        }
        if !(0.0..=1.0).contains(&self.faults.fail_rate) {
            faults.add(
                Code::TooLarge,
                "faults.fail_rate",
                format!("{}: give a share from 0 to 1", self.faults.fail_rate),
            );
        }
        if !(1..=100).contains(&self.faults.max_attempts) {
            let message = format!("{}: give a number from 1 to 100", self.faults.max_attempts);
            faults.add(Code::TooLarge, "faults.max_attempts", message);
        }
        if !(1.0..=MAX_SECONDS).contains(&self.faults.server_patience) {
            let message = format!("{}: give seconds from 1 to {MAX_SECONDS}", self.faults.server_patience);
            faults.add(Code::TooLarge, "faults.server_patience", message);
        }
        for (place, lost) in self.faults.lose_gpus.iter().enumerate() {
            if seconds(&lost.at) {
                let message = format!("{}: give seconds from 0 to {MAX_SECONDS}", lost.at);
                faults.add(Code::TooLarge, format!("faults.lose_gpus[{place}].at"), message);
            }
        }
    }

    fn policy_fits(&self, faults: &mut Faults) {
        let policy = self.policy();
        let kind = policy.kind();
        if !kind.supports(self.mode) {
            let message = format!("policy `{}` has no {} mode", kind.name(), self.mode.name());
            let able = gswarm_core::policy::PolicyKind::ALL.iter().filter(|kind| kind.supports(self.mode));
            let able: Vec<&str> = able.map(|kind| kind.name()).collect();
            faults.hinted(
                Code::NotApplicable,
                "policy",
                message,
                format!("policies that have it: {}", able.join(", ")),
            );
        }
        if self.plan.is_some() && self.policy.is_some() {
            let message = "give either a plan or a policy".to_owned();
            faults.hinted(Code::NotApplicable, "plan", message, "remove one of the two".to_owned());
        }
        if self.deployment.is_some() && (self.plan.is_some() || kind != PolicyKind::Static) {
            let message = match self.plan {
                Some(_) => "a plan says itself where models are".to_owned(),
                None => format!("policy `{}` decides by itself where models are", kind.name()),
            };
            let hint = "add `--policy static`, or remove the deployment".to_owned();
            faults.hinted(Code::NotApplicable, "deployment", message, hint);
        }
        for fault in policy.faults() {
            faults.add(Code::TooLarge, format!("policy.{}", fault.name()), fault.to_string());
        }
        if self.times.truth.is_some() && self.times.predictor.is_none() {
            let message =
                "`truth` needs a predictor: without one, estimates are the times of the requests".to_owned();
            let hint = "add --predictor (`times.predictor`), or remove it".to_owned();
            faults.hinted(Code::NotApplicable, "times.truth", message, hint);
        }
    }

    fn live_fits(&self, faults: &mut Faults) {
        let simulated = [
            ("faults.fail_rate", self.faults.fail_rate > 0.0),
            ("faults.lose_gpus", !self.faults.lose_gpus.is_empty()),
            ("times.noise", self.times.noise.is_some()),
            ("times.drift", !self.times.drift.is_empty()),
            ("times.truth", self.times.truth.is_some()),
        ];
        let Some(live) = &self.live else { return };
        for (path, _) in simulated.iter().filter(|(_, given)| *given) {
            let message = "this applies only to simulated runs, but the run is live".to_owned();
            faults.hinted(
                Code::NotApplicable,
                *path,
                message,
                "remove it: live runs measure real times and failures".to_owned(),
            );
        }
        if let Some(ray) = &live.ray
            && ray.speed.is_some()
            && (live.backends.is_some() || live.models.is_some())
        {
            let message =
                "`speed` applies only to emulated models, but `models` or `backends` is given".to_owned();
            let hint =
                "remove it; in a backends file a server of kind `emulated` has its own `speed`".to_owned();
            faults.hinted(Code::NotApplicable, "live.ray.speed", message, hint);
        }
    }
}

#[derive(Default)]
struct Faults(Vec<Diagnostic>);

impl Faults {
    fn add(&mut self, code: Code, path: impl Into<String>, message: String) {
        self.0.push(Diagnostic { path: path.into(), ..Diagnostic::of_file("", code, message) });
    }

    fn hinted(&mut self, code: Code, path: impl Into<String>, message: String, hint: String) {
        self.add(code, path, message);
        if let Some(last) = self.0.last_mut() {
            last.hint = Some(hint);
        }
    }
}
