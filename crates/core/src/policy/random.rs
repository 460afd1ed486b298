//! `random`: each task to any GPUs by a seeded draw. See [`super::yardsticks`].

use super::Policy;
use super::param::NoParams;
use super::registry::{BOTH, BuildContext, PolicyInfo};
use super::yardsticks::Yardstick;
use crate::instance::Instance;

pub(super) const INFO: PolicyInfo =
    PolicyInfo::new("random", BOTH, "each task to any GPUs by a seeded draw; a yardstick").yardstick();

pub(super) type Params = NoParams;

pub(super) fn build<'i>(
    instance: &'i Instance,
    _: &Params,
    context: &BuildContext<'_>,
) -> Box<dyn Policy + 'i> {
    Box::new(Yardstick::random(instance, context.seed))
}
