//! Flags for the parameters of policies, made from the tables that the policies keep.

use crate::failure::Failure;
use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use gswarm_core::policy::{ParamFault, ParamInfo, ParamKind, ParamValues, PolicyKind, PolicySpec};
use serde_json::Value;
use std::marker::PhantomData;

/// Whose parameters a command takes.
pub trait Scope {
    /// The policies.
    const KINDS: &'static [PolicyKind];
    /// Parameters whose defaults are others for this command, as texts of the command line.
    const DEFAULTS: &'static [(&'static str, &'static str)] = &[];
}

/// The parameters of all policies.
#[derive(Clone, Copy, Debug)]
pub struct AllPolicies;

impl Scope for AllPolicies {
    const KINDS: &'static [PolicyKind] = PolicyKind::ALL;
}

/// The values of parameters that flags gave.
#[derive(Clone, Debug)]
pub struct PolicyFlags<S = AllPolicies> {
    given: ParamValues,
    scope: PhantomData<S>,
}

/// Each parameter once, with the first policy that has it.
fn parameters<S: Scope>() -> impl Iterator<Item = (PolicyKind, &'static ParamInfo)> {
    let all = S::KINDS.iter().flat_map(|&kind| kind.params().iter().map(move |info| (kind, info)));
    all.filter(|(kind, info)| {
        PolicyKind::takers(info.name).iter().find(|of| S::KINDS.contains(of)) == Some(kind)
    })
}

fn flag_of(name: &str) -> String {
    name.replace('_', "-")
}

/// A default as people write it.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        number => number.as_f64().map(|number| number.to_string()),
    }
}

fn parser(kind: ParamKind) -> ValueParser {
    match kind {
        ParamKind::Choice { names } => PossibleValuesParser::new(names).map(Value::from).into(),
        other => ValueParser::new(move |text: &str| other.parse(text)),
    }
}

fn argument<S: Scope>(policy: PolicyKind, info: &'static ParamInfo) -> Arg {
    let own = S::DEFAULTS.iter().find(|(name, _)| *name == info.name).map(|(_, value)| (*value).to_owned());
    let help = match own.or_else(|| shown(&(info.default)())) {
        Some(default) => format!("{} [default: {default}]", info.help),
        None => info.help.to_owned(),
    };
    let value_name = match info.kind {
        ParamKind::Number { .. } => "X",
        ParamKind::Integer { .. } => "N",
        ParamKind::Seconds => "SECONDS",
        ParamKind::Choice { .. } => "NAME",
        ParamKind::Target => "LATENCY",
    };
    // clap wants texts that last: a few bytes for each flag, once in a process.
    let flag: &'static str = flag_of(info.name).leak();
    let heading: &'static str = format!("The `{}` policy", policy.name()).leak();
    let arg = Arg::new(info.name)
        .long(flag)
        .help(help)
        .help_heading(heading)
        .value_name(value_name)
        .allow_negative_numbers(true)
        .value_parser(parser(info.kind));
    if flag == info.name { arg } else { arg.alias(info.name) }
}

impl<S: Scope> Args for PolicyFlags<S> {
    fn augment_args(command: Command) -> Command {
        parameters::<S>().fold(command, |command, (policy, info)| command.arg(argument::<S>(policy, info)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Scope> FromArgMatches for PolicyFlags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let value = |info: &ParamInfo| {
            let own = S::DEFAULTS.iter().find(|(name, _)| *name == info.name);
            let own = || own.and_then(|(_, text)| info.kind.parse(text).ok());
            matches.get_one::<Value>(info.name).cloned().or_else(own)
        };
        let given = parameters::<S>().filter_map(|(_, info)| Some((info.name.to_owned(), value(info)?)));
        Ok(PolicyFlags { given: given.collect(), scope: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<S: Scope> PolicyFlags<S> {
    /// The policy with these parameters. Flags of other policies are refused: whoever gives them expects them to do something.
    pub fn spec(&self, kind: PolicyKind) -> Result<PolicySpec, Failure> {
        self.over(kind, ParamValues::new())
    }

    /// The same, with `base` for parameters that no flag gives.
    pub fn over(&self, kind: PolicyKind, mut base: ParamValues) -> Result<PolicySpec, Failure> {
        base.extend(self.given.clone());
        PolicySpec::from_values(kind, &base).map_err(|faults| {
            let is_unknown = |name: &str| {
                let is_it =
                    |fault: &ParamFault| matches!(fault, ParamFault::Unknown { name: of, .. } if of == name);
                faults.iter().any(is_it)
            };
            let unused = self.by_policy(is_unknown).into_iter();
            let unused = unused.map(|(user, flags)| unused_flags(&flags, kind, user));
            let wrong = faults.iter().filter(|fault| matches!(fault, ParamFault::Value { .. }));
            let wrong = wrong.map(|fault| Failure::input(fault.to_string()));
            unused.chain(wrong).reduce(Failure::and).unwrap_or_else(|| Failure::input("unknown parameters"))
        })
    }

    /// Refuses all flags in a run that follows a plan.
    pub fn none_beside_a_plan(&self) -> Result<(), Failure> {
        let failures = self.by_policy(|_| true).into_iter().map(|(user, flags)| {
            Failure::input(format!("{} has no effect in a run that follows a plan", flags.join(", ")))
                .hint(format!("remove it, or use --policy {} in place of --plan", user.name()))
        });
        failures.reduce(Failure::and).map_or(Ok(()), Err)
    }

    /// Those of the given flags that `which` names, by the policy that takes them.
    fn by_policy(&self, which: impl Fn(&str) -> bool) -> Vec<(PolicyKind, Vec<String>)> {
        let mut found: Vec<(PolicyKind, Vec<String>)> = Vec::new();
        for (kind, info) in parameters::<S>() {
            if !self.given.contains_key(info.name) || !which(info.name) {
                continue;
            }
            let flag = format!("--{}", flag_of(info.name));
            match found.iter_mut().find(|(of, _)| *of == kind) {
                Some((_, flags)) => flags.push(flag),
                None => found.push((kind, vec![flag])),
            }
        }
        found
    }
}

/// Flags that a policy has no use for, and the one that has.
pub fn unused_flags(given: &[String], policy: PolicyKind, user: PolicyKind) -> Failure {
    Failure::input(format!("policy `{}` does not take {}", policy.name(), given.join(", "))).hint(format!(
        "`{}` does: use --policy {}, or remove the {}",
        user.name(),
        user.name(),
        if given.len() == 1 { "flag" } else { "flags" }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One flag stands for the parameter of all policies that have it.
    #[test]
    fn parameters_of_one_name_take_the_same_values() {
        for (_, info) in parameters::<AllPolicies>() {
            for kind in PolicyKind::takers(info.name) {
                let same = kind.params().iter().find(|other| other.name == info.name).unwrap();
                assert_eq!(same.kind, info.kind, "{} of {}", info.name, kind.name());
            }
        }
    }

    #[test]
    fn the_help_names_every_parameter_and_its_default() {
        use clap::CommandFactory;
        let mut command = crate::commands::cli::Cli::command();
        let help = command.find_subcommand_mut("run").unwrap().render_help().to_string();
        for (policy, info) in parameters::<AllPolicies>() {
            assert!(help.contains(&format!("--{} <", flag_of(info.name))), "{}\n{help}", info.name);
            assert!(help.contains(&format!("The `{}` policy", policy.name())), "{help}");
            if let Some(default) = shown(&(info.default)()) {
                assert!(help.contains(&format!("[default: {default}]")), "{default}\n{help}");
            }
        }
    }

    #[test]
    fn flags_of_other_policies_are_refused_all_at_once() {
        let command = PolicyFlags::<AllPolicies>::augment_args(Command::new("run"));
        let words = ["run", "--delta", "1", "--gamma", "2", "--objective", "p99"];
        let matches = command.try_get_matches_from(words).unwrap();
        let flags = PolicyFlags::<AllPolicies>::from_arg_matches(&matches).unwrap();
        let refused = flags.spec(PolicyKind::Lru).unwrap_err().to_string();
        for part in [
            "does not take --gamma, --delta",
            "`online` does",
            "does not take --objective",
            "`adaptive` does",
        ] {
            assert!(refused.contains(part), "{part}\n{refused}");
        }
        assert!(flags.none_beside_a_plan().is_err());
    }
}
