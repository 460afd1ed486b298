//! `random`: each task to any GPUs by a seeded draw. See [`super::yardsticks`].

use super::Policy;
use super::info::{BOTH, BuildContext, PolicyInfo};
use super::param::NoParams;
use super::yardsticks::Yardstick;
use crate::instance::Instance;

pub(crate) const INFO: PolicyInfo =
    PolicyInfo::new("random", BOTH, "each task to any GPUs by a seeded draw; a yardstick").yardstick();

pub(crate) type Params = NoParams;

pub(crate) fn build<'i>(
    instance: &'i Instance,
    _: &Params,
    context: &BuildContext<'_>,
) -> Box<dyn Policy + 'i> {
    Box::new(Yardstick::random(instance, context.seed))
}
