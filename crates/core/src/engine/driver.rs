//! The decision loop, under the virtual and the real clock alike.

use super::{Decision, Effect, Engine, Event, News, Policy, Rejected, View};
use crate::time::Time;

/// What runs an engine: it says what happened and carries out what follows.
pub trait Driver<'i> {
    /// Why a run cannot go on.
    type Error;

    /// The engine that it runs.
    fn engine(&mut self) -> &mut Engine<'i>;

    /// Does what the engine asks for.
    fn carry_out(&mut self, effect: Effect);

    /// Called before the policy is told of `news`.
    fn before_news(&mut self, _news: News) {}

    /// Called before a decision is applied.
    ///
    /// # Errors
    /// Why it must not be applied.
    fn before_decision(&mut self, _decision: Decision) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The error for a decision that cannot be carried out.
    fn rejected(&mut self, why: Rejected) -> Self::Error;

    /// Something happened: the engine handles it, and the effects are carried out.
    fn handle(&mut self, at: Time, event: Event) {
        self.engine().handle(at, event);
        self.carry_out_effects();
    }

    /// Carries out what the engine has asked for since the last time.
    fn carry_out_effects(&mut self) {
        let mut effects = std::mem::take(&mut self.engine().effects);
        effects.drain(..).for_each(|effect| self.carry_out(effect));
        // The list keeps its memory.
        self.engine().effects = effects;
    }

    /// The instant is settled: tells the policy what is new, then asks it until it has nothing more to decide.
    ///
    /// # Errors
    /// Why a decision could not be carried out.
    fn ask(&mut self, policy: &mut dyn Policy) -> Result<(), Self::Error> {
        let mut all = std::mem::take(&mut self.engine().news);
        for news in all.drain(..) {
            self.before_news(news);
            tell(policy, news, &self.engine().view());
        }
        self.engine().news = all;
        while let Some(decision) = policy.decide(&self.engine().view()) {
            self.before_decision(decision)?;
            if let Err(why) = self.engine().apply(decision) {
                return Err(self.rejected(why));
            }
            self.carry_out_effects();
        }
        Ok(())
    }
}

fn tell(policy: &mut dyn Policy, news: News, view: &View<'_>) {
    match news {
        News::Ready(task) => policy.ready(task, view),
        News::Freed(gpus) => policy.freed(gpus, view),
        News::Lost(gpu) => policy.lost(gpu, view),
        News::Returned(gpu) => policy.returned(gpu, view),
        News::GivenUp(task) => policy.given_up(task, view),
    }
}
