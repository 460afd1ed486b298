//! Advice in sentences, which the terminal and the page share.

use super::{AdviceReport, Measure, Point, Reached, TailPart, TargetReport};
use serde_json::Value;

/// A time or a share, as people write it.
fn shown(target: &TargetReport, value: f64) -> String {
    match target.measure {
        Measure::Deadline => format!("{:.2}%", 100.0 * value),
        _ if value >= 1000.0 => format!("{value:.0} s"),
        _ => format!("{value:.1} s"),
    }
}

fn shown_or(target: &TargetReport, value: Option<f64>) -> String {
    value.map_or_else(|| "not reached: requests never end".to_owned(), |value| shown(target, value))
}

/// `76.0 s +- 9.0`.
fn with_spread(target: &TargetReport, reached: &Reached) -> String {
    let text = shown_or(target, reached.value);
    match reached.plus_minus {
        spread if spread > 0.0 => {
            format!("{text} +- {}", shown(target, spread).trim_end_matches(" s"))
        }
        _ => text,
    }
}

impl TargetReport {
    /// `P99 latency of chat`.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.workflow {
            Some(workflow) => format!("{} of {workflow}", self.measure.title()),
            None => self.measure.title().to_owned(),
        }
    }

    /// The limit, as people write it.
    #[must_use]
    pub fn limit(&self) -> String {
        shown(self, self.at_most_seconds.or(self.at_most_missed).unwrap_or(0.0))
    }
}

/// `adaptive (objective p99)`.
#[must_use]
pub fn policy_title(policy: &Value) -> String {
    let name = policy["name"].as_str().unwrap_or_default();
    let fields = policy.as_object().into_iter().flatten().filter(|(field, _)| *field != "name");
    let shown: Vec<String> = fields
        .map(|(field, value)| format!("{field} {}", value.as_str().map_or(value.to_string(), str::to_owned)))
        .collect();
    if shown.is_empty() { name.to_owned() } else { format!("{name} ({})", shown.join(", ")) }
}

fn gpus(count: u32) -> String {
    format!("{count} GPU{}", if count == 1 { "" } else { "s" })
}

impl AdviceReport {
    fn point(&self, gpus: u32) -> Option<&Point> {
        self.points.iter().map(|tried| &tried.point).find(|point| point.gpus == gpus)
    }

    /// Each target's measure at a point.
    fn measures(&self, point: &Point) -> String {
        let of = |(target, reached): (&TargetReport, &Reached)| {
            format!("the {} is {}", target.title(), with_spread(target, reached))
        };
        self.targets.iter().zip(&point.targets).map(of).collect::<Vec<_>>().join(" and ")
    }

    /// The answer in one line.
    #[must_use]
    pub fn headline(&self) -> String {
        let limits: Vec<String> =
            self.targets.iter().map(|target| format!("{} of {}", target.title(), target.limit())).collect();
        let limits = limits.join(" and ");
        match (self.verdict.as_str(), self.gpus) {
            ("met", Some(count)) => {
                let policy = self.policy.as_ref().map(policy_title).unwrap_or_default();
                format!("{} under {policy}: {limits}", gpus(count))
            }
            ("below_floor", _) => format!("No number of GPUs meets a {limits}"),
            _ => format!("No number of GPUs that was tried meets a {limits}"),
        }
    }

    /// What the answer rests on and what it means, a sentence or two each.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(floor) = &self.floor {
            let steps: Vec<String> =
                floor.path.iter().map(|(model, seconds)| format!("{model} {seconds:.1} s")).collect();
            all.push(format!(
                "{} is the floor of the {}: with nothing to wait for, a request of {} takes {}.",
                shown(&floor.target, floor.floor),
                floor.target.title(),
                floor.workflow,
                steps.join(" + ")
            ));
            all.push("Allow more time, or make these models faster.".to_owned());
            return all;
        }
        let Some(answer) = self.gpus else {
            all.extend(
                self.points
                    .last()
                    .map(|tried| format!("With {} {}.", gpus(tried.point.gpus), self.measures(&tried.point))),
            );
            all.extend(self.slowest_sentences());
            return all;
        };
        let over = if self.traces > 1 { format!(" over {} traces", self.traces) } else { String::new() };
        let interval = match (self.gpus_low, self.gpus_high) {
            _ if self.traces < 2 => None,
            (Some(low), Some(high)) if low == high => Some(format!("{}{over}.", gpus(low))),
            (Some(low), Some(high)) => Some(format!("{low} to {}{over}.", gpus(high))),
            (Some(low), None) => Some(format!("{low} GPUs or more{over}.")),
            _ => None,
        };
        all.extend(interval);
        for count in [answer.saturating_sub(1), answer] {
            all.extend(self.point(count).map(|point| format!("At {count} {}.", self.measures(point))));
        }
        if let Some(point) = self.point(answer) {
            let rests = |(target, reached): (&TargetReport, &Reached)| {
                target.measure.percentile().map(|_| {
                    format!(
                        "The {} rests on the slowest {} of {} requests, resampled from {}.",
                        target.title(),
                        reached.rests_on,
                        reached.requests,
                        self.given_requests
                    )
                })
            };
            all.extend(self.targets.iter().zip(&point.targets).filter_map(rests));
        }
        all.extend(self.load_sentence());
        if let Some(check) = &self.check {
            let values: Vec<String> = self
                .targets
                .iter()
                .zip(check.values.iter().zip(&check.second_half))
                .map(|(target, (&all, &late))| {
                    format!(
                        "{} {} ({} in its second half)",
                        target.title(),
                        shown_or(target, all),
                        shown_or(target, late)
                    )
                })
                .collect();
            all.push(format!(
                "A long run of {} traces ({} requests) {}: {}.",
                check.traces,
                check.requests,
                if check.met { "confirms it" } else { "does not confirm it" },
                values.join(", ")
            ));
        }
        if !self.spare.is_empty() {
            let what = match self.spare.as_str() {
                "server" => "one server".to_owned(),
                "1" => "one GPU".to_owned(),
                many => format!("{many} GPUs"),
            };
            all.push(format!("These figures are with {what} lost at the start of the measurement."));
        }
        if let Some(cost) = &self.cost {
            let each = cost.per_thousand_requests;
            let each = each.map_or(String::new(), |each| format!(", {each:.2} per thousand requests"));
            all.push(format!("It costs {:.2} per hour{each}.", cost.per_hour));
        }
        if let Some(meets) = self.static_meets {
            let does = if meets { "meets the target too" } else { "does not meet the target" };
            all.push(format!("A permanent placement (`static`) on as many GPUs {does}."));
        }
        all
    }

    /// How well the given requests tell the load, and with it the answer.
    fn load_sentence(&self) -> Option<String> {
        let (load, spread) = self.load_gpus.zip(self.load_plus_minus)?;
        let told = format!(
            "The traffic keeps {load:.1} GPUs busy, +- {spread:.1} (from {} requests)",
            self.given_requests
        );
        let others = self.known_low.zip(self.known_high).filter(|(low, high)| low < high);
        let others = others.map_or(String::new(), |(low, high)| {
            format!(": with another sample of this size, the answer would be {low} to {high} GPUs")
        });
        let enough = self.requests_for_one_gpu.filter(|_| spread > 1.0);
        let enough = enough.map_or(String::new(), |enough| {
            format!(" About {enough} requests would determine the load to within one GPU.")
        });
        Some(format!("{told}{others}.{enough}"))
    }

    /// What the slowest requests spend their time on, and what would help.
    fn slowest_sentences(&self) -> Vec<String> {
        let part = |part: &TailPart| match &part.model {
            Some(model) => format!("{:.1} s loading {model}", part.seconds),
            None => format!("{:.1} s {}", part.seconds, part.what),
        };
        let parts: Vec<String> = self.slowest.iter().map(part).collect();
        let Some(first) = self.slowest.first() else { return Vec::new() };
        let loads = self.slowest.iter().find(|part| part.what == "loading");
        let advice = match (first.what.as_str(), loads) {
            ("executing", None) => "Allow more time, or make these models faster.".to_owned(),
            (_, Some(TailPart { model: Some(model), .. })) => {
                format!("Keep {model} resident: try `--policy static`, or `residency: memory`.")
            }
            _ => "Try another --policy, or more GPUs (--max-gpus).".to_owned(),
        };
        vec![format!("The slowest requests spend {}.", parts.join(", ")), advice]
    }
}
