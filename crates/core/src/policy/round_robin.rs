//! `round_robin`: each task to the next GPUs in turn. See [`super::yardsticks`].

use super::Policy;
use super::param::NoParams;
use super::registry::{BOTH, BuildContext, PolicyInfo};
use super::yardsticks::Yardstick;
use crate::instance::Instance;

pub(super) const INFO: PolicyInfo =
    PolicyInfo::new("round_robin", BOTH, "each task to the next GPUs in turn; a yardstick").yardstick();

pub(super) type Params = NoParams;

pub(super) fn build<'i>(instance: &'i Instance, _: &Params, _: &BuildContext<'_>) -> Box<dyn Policy + 'i> {
    Box::new(Yardstick::round_robin(instance))
}
