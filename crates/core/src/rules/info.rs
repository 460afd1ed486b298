//! What a policy says about itself, and what it is built with.

use crate::bound::Bound;
use crate::instance::{Mode, Residency};

/// What a policy is built with beside its own parameters.
#[derive(Clone, Copy)]
pub struct BuildContext<'a> {
    /// For every random choice.
    pub seed: u64,
    /// A plan is followed strictly, however late it is: in live runs nothing may be known about run times.
    pub strict_plan: bool,
    /// A search ends, with the best so far, once this says so.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// The problem's best bound on the makespan, where it is known already.
    pub bound: Option<&'a Bound>,
}

impl Default for BuildContext<'_> {
    fn default() -> Self {
        BuildContext { seed: 0, strict_plan: false, stop: &|| false, bound: None }
    }
}

impl BuildContext<'_> {
    /// The usual one, with this seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        BuildContext { seed, ..BuildContext::default() }
    }
}

/// What a policy says about itself.
#[derive(Debug)]
pub(crate) struct PolicyInfo {
    pub name: &'static str,
    pub modes: &'static [Mode],
    pub about: &'static str,
    pub is_yardstick: bool,
    pub residency: Option<Residency>,
}

/// The modes of policies for batches.
pub(crate) const OFFLINE: &[Mode] = &[Mode::Offline];
/// The modes of policies for batches and streams.
pub(crate) const BOTH: &[Mode] = &[Mode::Offline, Mode::Online];

impl PolicyInfo {
    pub(crate) const fn new(name: &'static str, modes: &'static [Mode], about: &'static str) -> PolicyInfo {
        PolicyInfo { name, modes, about, is_yardstick: false, residency: None }
    }

    /// It is there to be compared with, not to be used.
    pub(crate) const fn yardstick(self) -> PolicyInfo {
        PolicyInfo { is_yardstick: true, ..self }
    }

    /// It runs under this residency, whatever the cluster's is.
    pub(crate) const fn with_residency(self, residency: Residency) -> PolicyInfo {
        PolicyInfo { residency: Some(residency), ..self }
    }
}

/// Declares a policy without parameters: what it says about itself and how it is built.
macro_rules! without_params {
    (
        $name:literal, $modes:ident, $about:literal, $($method:ident($($arg:expr)?),)?
        |$instance:ident, $context:pat_param| $policy:expr
    ) => {
        pub(crate) const INFO: $crate::rules::info::PolicyInfo =
            $crate::rules::info::PolicyInfo::new($name, $crate::rules::info::$modes, $about)$(.$method($($arg)?))?;
        pub(crate) type Params = $crate::rules::param::NoParams;

        pub(crate) fn build<'i>(
            $instance: &'i $crate::Instance,
            _: &Params,
            $context: &$crate::rules::info::BuildContext<'_>,
        ) -> Box<dyn $crate::engine::Policy + 'i> {
            Box::new($policy)
        }
    };
}
pub(crate) use without_params;
