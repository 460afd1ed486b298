//! `round_robin`: each task to the next GPUs in turn. See [`super::yardsticks`].

use super::Policy;
use super::info::{BOTH, BuildContext, PolicyInfo};
use super::param::NoParams;
use super::yardsticks::Yardstick;
use crate::instance::Instance;

pub(crate) const INFO: PolicyInfo =
    PolicyInfo::new("round_robin", BOTH, "each task to the next GPUs in turn; a yardstick").yardstick();

pub(crate) type Params = NoParams;

pub(crate) fn build<'i>(instance: &'i Instance, _: &Params, _: &BuildContext<'_>) -> Box<dyn Policy + 'i> {
    Box::new(Yardstick::round_robin(instance))
}
