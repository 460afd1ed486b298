//! All policies: the list of them, with their parameters, and how they are built. Each describes itself in its own file: the rules
//! are in `crate::rules`, the planner is in [`crate::plan`].

pub use crate::engine::Policy;
pub use crate::plan::planned::{PlannedParams, carry_out, follow, follow_as, search};
pub use crate::plan::{Follow, FollowSteps};
pub use crate::rules::{
    Adaptive, AdaptiveParams, BuildContext, LatencyTarget, NoParams, Objective, OnlineParams, ParamFault,
    ParamInfo, ParamKind, ParamValues,
};

use crate::instance::{Instance, Mode, Residency};
use crate::plan::planned;
use crate::rules::info::PolicyInfo;
use crate::rules::param::{Params, changed, read_params};
use crate::rules::*;
use crate::time::Span;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::str::FromStr;

/// Makes [`PolicyKind`] and [`PolicySpec`]. Each module has `INFO`, the type `Params` and the function `build`.
macro_rules! policies {
    ($($Kind:ident => $module:ident,)+) => {
        /// The available policies.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum PolicyKind {
            $(#[doc = concat!("Described in `", stringify!($module), "`.")] $Kind,)+
        }

        impl PolicyKind {
            /// All of them, in the order in which they are shown.
            pub const ALL: &'static [PolicyKind] = &[$(PolicyKind::$Kind,)+];

            fn info(self) -> &'static PolicyInfo {
                match self { $(PolicyKind::$Kind => &$module::INFO,)+ }
            }

            /// Its parameters, in the order in which they are shown.
            #[must_use]
            pub fn params(self) -> &'static [ParamInfo] {
                match self { $(PolicyKind::$Kind => <$module::Params as Params>::TABLE,)+ }
            }
        }

        /// A policy with its parameters. Written as `{name: online, alpha: 2.0}`; its name alone stands for the defaults.
        #[derive(Clone, Debug, PartialEq)]
        pub enum PolicySpec {
            $(#[doc = concat!("Described in `", stringify!($module), "`.")] $Kind($module::Params),)+
        }

        impl PolicySpec {
            /// Which policy this is.
            #[must_use]
            pub fn kind(&self) -> PolicyKind {
                match self { $(PolicySpec::$Kind(_) => PolicyKind::$Kind,)+ }
            }

            /// The parameters that differ from the defaults.
            #[must_use]
            pub fn params(&self) -> ParamValues {
                match self { $(PolicySpec::$Kind(params) => changed(params),)+ }
            }

            fn read(kind: PolicyKind, values: &ParamValues, faults: &mut Vec<ParamFault>) -> PolicySpec {
                match kind { $(PolicyKind::$Kind => PolicySpec::$Kind(read_params(values, faults)),)+ }
            }

            /// The policy, ready to run `instance`.
            #[must_use]
            pub fn build<'i>(&self, instance: &'i Instance, context: &BuildContext<'_>) -> Box<dyn Policy + 'i> {
                match self { $(PolicySpec::$Kind(params) => $module::build(instance, params, context),)+ }
            }
        }
    };
}

macro_rules! all_policies {
    ($($rules:tt)+) => {
        policies! { Planned => planned, $($rules)+ }
    };
}
with_rules!(all_policies);

impl PolicyKind {
    /// As flags and file names spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// What it optimises and when to use it, in one line.
    #[must_use]
    pub fn about(self) -> &'static str {
        self.info().about
    }

    /// How requests may arrive.
    #[must_use]
    pub fn modes(self) -> &'static [Mode] {
        self.info().modes
    }

    /// Whether it is a yardstick for comparisons only.
    #[must_use]
    pub fn is_yardstick(self) -> bool {
        self.info().is_yardstick
    }

    /// Whether the planner starts from it.
    #[must_use]
    pub fn is_portfolio(self) -> bool {
        self != PolicyKind::Planned
    }

    /// Whether it can be used in this mode.
    #[must_use]
    pub fn supports(self, mode: Mode) -> bool {
        self.modes().contains(&mode)
    }

    /// The residency under which it runs on a cluster that has `residency`.
    #[must_use]
    pub fn residency(self, residency: Residency) -> Residency {
        self.info().residency.unwrap_or(residency)
    }

    /// The policy that is used where none is named: the best for the way in which requests arrive.
    #[must_use]
    pub fn usual(mode: Mode) -> PolicyKind {
        match mode {
            Mode::Offline => PolicyKind::Planned,
            Mode::Online => PolicyKind::Adaptive,
        }
    }

    /// The policies that have a parameter of this name.
    #[must_use]
    pub fn takers(param: &str) -> Vec<PolicyKind> {
        let takes = |kind: &PolicyKind| kind.params().iter().any(|info| info.name == param);
        PolicyKind::ALL.iter().copied().filter(takes).collect()
    }

    /// The policy with default parameters, ready to run `instance`.
    #[must_use]
    pub fn build<'i>(self, instance: &'i Instance, context: &BuildContext<'_>) -> Box<dyn Policy + 'i> {
        PolicySpec::default_of(self).build(instance, context)
    }

    /// Its full description.
    #[must_use]
    pub fn description(self) -> PolicyDescription {
        PolicyDescription {
            name: self.name(),
            about: self.about(),
            modes: self.modes().iter().map(|mode| mode.name()).collect(),
            yardstick: self.is_yardstick(),
            parameters: self.params(),
        }
    }
}

/// A policy, as lists of policies show it.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyDescription {
    /// As flags and file names spell it.
    pub name: &'static str,
    /// What it optimises and when to use it, in one line.
    pub about: &'static str,
    /// How requests may arrive.
    pub modes: Vec<&'static str>,
    /// Whether it is a yardstick for comparisons only.
    pub yardstick: bool,
    /// Its parameters.
    pub parameters: &'static [ParamInfo],
}

/// There is no policy of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy `{name}`; the policies are {known}")]
pub struct UnknownPolicy {
    name: String,
    known: String,
}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<PolicyKind, UnknownPolicy> {
        PolicyKind::ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| UnknownPolicy {
            name: name.to_owned(),
            known: PolicyKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", "),
        })
    }
}

impl PolicySpec {
    /// The policy with default parameters.
    #[must_use]
    pub fn default_of(kind: PolicyKind) -> PolicySpec {
        PolicySpec::read(kind, &ParamValues::new(), &mut Vec::new())
    }

    /// The policy with these parameters, and defaults for the rest.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn from_values(kind: PolicyKind, values: &ParamValues) -> Result<PolicySpec, Vec<ParamFault>> {
        let unknown = values.keys().filter(|name| kind.params().iter().all(|info| info.name != **name));
        let mut faults: Vec<ParamFault> = unknown
            .map(|name| ParamFault::Unknown {
                policy: kind.name(),
                name: name.clone(),
                takers: PolicyKind::takers(name).iter().map(|kind| kind.name()).collect(),
            })
            .collect();
        let spec = PolicySpec::read(kind, values, &mut faults);
        if faults.is_empty() { Ok(spec) } else { Err(faults) }
    }

    /// As flags and file names spell it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Parameters that are out of range: only a specification that was made in code has any.
    #[must_use]
    pub fn faults(&self) -> Vec<ParamFault> {
        PolicySpec::from_values(self.kind(), &self.params()).err().unwrap_or_default()
    }
}

/// A name, or a mapping with the name and parameters of that policy.
impl schemars::JsonSchema for PolicySpec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PolicySpec".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<&str> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
        let mut branches = vec![serde_json::json!({"type": "string", "enum": names})];
        for kind in PolicyKind::ALL {
            let name = serde_json::json!({"const": kind.name(), "description": kind.about()});
            let mut properties = serde_json::Map::from_iter([("name".to_owned(), name)]);
            properties.extend(kind.params().iter().map(|info| (info.name.to_owned(), info.schema())));
            branches.push(serde_json::json!({
                "type": "object", "properties": properties, "required": ["name"], "additionalProperties": false,
            }));
        }
        schemars::json_schema!({"anyOf": branches})
    }
}

impl Serialize for PolicySpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = ("name".to_owned(), Value::from(self.name()));
        serializer.collect_map(std::iter::once(name).chain(self.params()))
    }
}

impl<'de> Deserialize<'de> for PolicySpec {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<PolicySpec, D::Error> {
        use serde::de::Error;
        let (name, values) = match Value::deserialize(deserializer)? {
            Value::String(name) => (name, ParamValues::new()),
            Value::Object(mut fields) => match fields.remove("name") {
                Some(Value::String(name)) => (name, fields.into_iter().collect()),
                _ => return Err(D::Error::custom("a policy has no `name`")),
            },
            _ => return Err(D::Error::custom("give the name of a policy, or its `name` and its parameters")),
        };
        let kind = name.parse().map_err(D::Error::custom)?;
        PolicySpec::from_values(kind, &values).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            D::Error::custom(faults.join("; "))
        })
    }
}

impl PolicySpec {
    /// How long it may search: [`BuildContext::stop`] has to say when that is over.
    #[must_use]
    pub fn budget(&self) -> Option<Span> {
        match self {
            PolicySpec::Planned(params) => params.budget,
            _ => None,
        }
    }

    /// The same with so many rounds of search, where it searches.
    #[must_use]
    pub fn with_rounds(self, rounds: u64) -> PolicySpec {
        match self {
            PolicySpec::Planned(params) => {
                PolicySpec::Planned(PlannedParams { rounds: Some(rounds), ..params })
            }
            other => other,
        }
    }
}
