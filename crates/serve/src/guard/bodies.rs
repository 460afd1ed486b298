//! The bodies of requests. What has come of all of them together is bounded, so that many that are half sent do not take all
//! memory.

use super::RequestLimits;
use crate::fault::Fault;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use futures_util::StreamExt;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Memory is given out in pieces of so many bytes.
const PIECE: usize = 1024;

/// The memory for all bodies.
pub(super) struct BodyPool(Arc<Semaphore>);

impl BodyPool {
    /// For so many bytes.
    pub fn new(bytes: usize) -> BodyPool {
        BodyPool(Arc::new(Semaphore::new((bytes / PIECE).clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// The whole of a body, and its part of the memory.
    pub async fn whole(
        &self,
        body: Body,
        limits: &RequestLimits,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Fault> {
        let slow =
            |_| Fault::new(StatusCode::REQUEST_TIMEOUT, "slow_body", "the body did not arrive in time");
        timeout(limits.body_time, self.read(body, limits)).await.map_err(slow)?
    }

    async fn read(
        &self,
        body: Body,
        limits: &RequestLimits,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Fault> {
        let most = limits.body_bytes;
        let too_large = || {
            let message = format!("the body exceeds the limit of {most} bytes");
            Fault::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
        };
        if body.size_hint().lower() > most as u64 {
            return Err(too_large());
        }
        let mut parts = body.into_data_stream();
        let (mut held, mut room): (Vec<u8>, Option<OwnedSemaphorePermit>) = (Vec::new(), None);
        loop {
            let message = "the body stalled for too long";
            let slow = |_| Fault::new(StatusCode::REQUEST_TIMEOUT, "slow_body", message);
            let Some(part) = timeout(limits.body_pause, parts.next()).await.map_err(slow)? else { break };
            let part = part.map_err(|_| Fault::invalid("the body ended before it was complete"))?;
            if held.len() + part.len() > most {
                return Err(too_large());
            }
            self.grow(&mut room, held.len() + part.len())?;
            held.extend_from_slice(&part);
        }
        Ok((Bytes::from(held), room))
    }

    /// Takes what is lacking for so many bytes.
    fn grow(&self, room: &mut Option<OwnedSemaphorePermit>, bytes: usize) -> Result<(), Fault> {
        let has = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let lacks = bytes.div_ceil(PIECE).saturating_sub(has);
        if lacks == 0 {
            return Ok(());
        }
        let lacks = u32::try_from(lacks).unwrap_or(u32::MAX);
        let more = Arc::clone(&self.0)
            .try_acquire_many_owned(lacks)
            .map_err(|_| Fault::unavailable("too_many_bytes", "the memory for request bodies is used up"))?;
        match room {
            Some(room) => room.merge(more),
            None => *room = Some(more),
        }
        Ok(())
    }
}
