//! The backends of a cluster: which one serves which model on which GPUs.

use crate::backend::{Backend, CallAbilities, Replica};
use gswarm_core::{Gpus, ModelId};
use std::path::PathBuf;
use std::sync::Arc;

/// A backend and what it serves.
#[derive(Clone)]
pub struct Member {
    /// What people call it.
    pub name: String,
    /// The server.
    pub backend: Arc<dyn Backend>,
    /// Its GPUs, as the cluster numbers them.
    pub gpus: Gpus,
    /// Over how many GPUs, from its first one on, it can lay a model: its own, and, where models are wider than a server
    /// and it can reach its neighbours, theirs.
    pub reach: u32,
    /// The models that it can serve; all of them where `None`.
    pub models: Option<Vec<ModelId>>,
}

/// All backends.
#[derive(Clone, Default)]
pub struct Fleet {
    members: Vec<Member>,
}

impl Fleet {
    /// These backends; earlier ones are preferred where several could serve.
    #[must_use]
    pub fn new(members: Vec<Member>) -> Fleet {
        Fleet { members }
    }

    /// One backend for everything.
    #[must_use]
    pub fn of(backend: Arc<dyn Backend>, gpus: u32) -> Fleet {
        Fleet::new(vec![Member {
            name: "backend".to_owned(),
            backend,
            gpus: Gpus::new(0, gpus),
            reach: gpus,
            models: None,
        }])
    }

    /// All of them.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// What can be done with a model wherever it is: the servers that have it may differ, and the least able counts.
    #[must_use]
    pub fn abilities(&self, model: ModelId) -> CallAbilities {
        let serve = |member: &&Member| member.models.as_ref().is_none_or(|models| models.contains(&model));
        let able = self.members.iter().filter(serve).map(|member| member.backend.abilities(model));
        able.min_by_key(|abilities| abilities.dialect).unwrap_or_default()
    }

    /// The files with what the processes that serve a model said last.
    #[must_use]
    pub fn outputs(&self, model: ModelId) -> Vec<PathBuf> {
        let serve = |member: &&Member| member.models.as_ref().is_none_or(|models| models.contains(&model));
        self.members.iter().filter(serve).filter_map(|member| member.backend.output(model)).collect()
    }

    /// Who serves a replica, by number.
    #[must_use]
    pub fn serves(&self, replica: Replica) -> Option<usize> {
        let serves = |member: &Member| {
            let Replica { model, gpus } = replica;
            let last = gpus.first.0 + gpus.count - 1;
            let has_gpus = member.gpus.contains(gpus.first) && last < member.gpus.first.0 + member.reach;
            has_gpus && member.models.as_ref().is_none_or(|models| models.contains(&model))
        };
        self.members.iter().position(serves)
    }
}
