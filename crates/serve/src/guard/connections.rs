//! The connections that are open. Where there are too many, the one that has asked for nothing for the longest gives way, and
//! first that of whoever has the most: sockets that are only held open shut nobody out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// All of them.
pub(super) struct Connections {
    most: usize,
    most_of_one: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// Counts what happens: lower is longer ago.
    clock: u64,
    open: HashMap<u64, Entry>,
    of_peer: HashMap<IpAddr, usize>,
}

struct Entry {
    peer: IpAddr,
    /// Requests that are being answered on it.
    busy: usize,
    /// When it has last been of use.
    since: u64,
    gives_way: Arc<Notify>,
}

/// One of them, as long as it is open.
pub(super) struct Connection {
    number: u64,
    all: Arc<Connections>,
    gives_way: Arc<Notify>,
}

/// A request that is being answered: its connection does not give way.
pub(super) struct Busy(Arc<Connection>);

impl Connections {
    /// At most so many, and so many of one peer.
    pub fn new(most: usize, most_of_one: usize) -> Arc<Connections> {
        Arc::new(Connections { most, most_of_one: most_of_one.min(most), table: Mutex::default() })
    }

    /// Another connection; `None` where all are being answered on.
    pub fn open(self: &Arc<Connections>, peer: IpAddr) -> Option<Arc<Connection>> {
        let mut table = self.lock();
        let of_peer = table.of_peer.get(&peer).copied().unwrap_or(0);
        if of_peer >= self.most_of_one {
            table.close_oldest(|entry| entry.peer == peer)?;
        } else if table.open.len() >= self.most {
            table.make_room()?;
        }
        table.clock += 1;
        let (number, gives_way) = (table.clock, Arc::new(Notify::new()));
        let entry = Entry { peer, busy: 0, since: number, gives_way: Arc::clone(&gives_way) };
        table.open.insert(number, entry);
        *table.of_peer.entry(peer).or_default() += 1;
        Some(Arc::new(Connection { number, all: Arc::clone(self), gives_way }))
    }

    /// Has one give way: there are no file descriptors left.
    pub fn make_room(&self) {
        let _ = self.lock().make_room();
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn make_room(&mut self) -> Option<()> {
        let largest = self.of_peer.iter().max_by_key(|&(_, count)| count).map(|(&peer, _)| peer)?;
        self.close_oldest(|entry| entry.peer == largest).or_else(|| self.close_oldest(|_| true))
    }

    /// Closes the one that has been idle for the longest; `None` where there is none.
    fn close_oldest(&mut self, is_meant: impl Fn(&Entry) -> bool) -> Option<()> {
        let idle = self.open.iter().filter(|(_, entry)| entry.busy == 0 && is_meant(entry));
        let (&number, _) = idle.min_by_key(|(_, entry)| entry.since)?;
        self.remove(number).map(|entry| entry.gives_way.notify_one())
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.open.remove(&number)?;
        if let Some(count) = self.of_peer.get_mut(&entry.peer) {
            *count -= 1;
            if *count == 0 {
                self.of_peer.remove(&entry.peer);
            }
        }
        Some(entry)
    }
}

impl Connection {
    /// Returns when it is to give way to another.
    pub async fn gives_way(&self) {
        self.gives_way.notified().await;
    }

    /// A request has come over it that is being answered.
    pub fn busy(self: &Arc<Connection>) -> Busy {
        if let Some(entry) = self.all.lock().open.get_mut(&self.number) {
            entry.busy += 1;
        }
        Busy(Arc::clone(self))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.lock().remove(self.number);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut table = self.0.all.lock();
        table.clock += 1;
        let now = table.clock;
        if let Some(entry) = table.open.get_mut(&self.0.number) {
            entry.busy -= 1;
            entry.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn peer(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    fn is_closed(one: &Connection) -> bool {
        one.gives_way().now_or_never().is_some()
    }

    #[test]
    fn the_one_that_is_idle_for_the_longest_gives_way() {
        let all = Connections::new(3, 3);
        let (first, second, third) =
            (all.open(peer(1)).unwrap(), all.open(peer(1)).unwrap(), all.open(peer(1)).unwrap());
        let busy = first.busy();
        let fourth = all.open(peer(1)).unwrap();
        assert!(is_closed(&second) && !is_closed(&first) && !is_closed(&third));
        let (_also, _too) = (third.busy(), fourth.busy());
        assert!(all.open(peer(2)).is_none(), "all are being answered on");
        drop(busy);
        assert!(all.open(peer(2)).is_some() && is_closed(&first));
    }

    #[test]
    fn whoever_has_the_most_gives_way_first() {
        let all = Connections::new(4, 4);
        let other = all.open(peer(2)).unwrap();
        let many: Vec<_> = (0..3).map(|_| all.open(peer(1)).unwrap()).collect();
        let more: Vec<_> = (0..20).map(|_| all.open(peer(3)).unwrap()).collect();
        assert!(!is_closed(&other), "one alone is spared, though it is the oldest");
        assert!(is_closed(&many[0]) && is_closed(&more[0]));
    }

    #[test]
    fn nobody_has_more_than_a_part() {
        let all = Connections::new(10, 4);
        let many: Vec<_> = (0..6).map(|_| all.open(peer(1)).unwrap()).collect();
        assert_eq!(many.iter().filter(|one| is_closed(one)).count(), 2);
        drop(many);
        assert!(all.lock().open.is_empty() && all.lock().of_peer.is_empty());
    }
}
