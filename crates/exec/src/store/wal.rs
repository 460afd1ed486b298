//! SQLite's write-ahead log. If a bit in it flips, SQLite treats the rest as an interrupted write and drops it
//! silently. This module detects that.
//!
//! The layout is at <https://www.sqlite.org/fileformat2.html#walformat>.

use super::{JournalError, beside};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Checks the log before SQLite opens it, and leaves in the lock when this machine was started.
pub(super) fn check(path: &Path, lock: &File) -> Result<(), JournalError> {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut before = vec![0; boot.len()];
    let read = lock.read_at(&mut before, 0).map_err(JournalError::Folder)?;
    // A machine that lost its power may have lost the last writes too, unless each waited for the disk.
    let same_boot = !boot.is_empty() && read == boot.len() && before == boot;
    check_frames(path, same_boot)?;
    // Where the disk is full, less is known at the next start.
    let _ = lock.write_all_at(&boot, 0);
    Ok(())
}

/// Whether frames are missing that were written: those behind a damaged one, and, where this machine has not been started
/// since, those that SQLite's index of the log speaks of.
pub(super) fn check_frames(path: &Path, trusts_index: bool) -> Result<(), JournalError> {
    let log = match Log::open(&beside(path, "-wal")) {
        Ok(Some(log)) => log,
        Ok(None) => return Ok(()),
        Err(error) => return Err(JournalError::Folder(error)),
    };
    let found = log.walk().map_err(JournalError::Folder)?;
    let index = trusts_index.then(|| committed(path, &found)).flatten();
    if found.broken || index.is_some_and(|committed| committed > found.committed) {
        return Err(JournalError::Damaged(
            "its -wal file of recent writes is damaged: some writes are lost".to_owned(),
        ));
    }
    Ok(())
}

struct Log {
    file: BufReader<File>,
    header: [u8; HEADER],
}

/// What is in a log.
struct Found {
    /// Frames up to the last whole transaction.
    committed: u32,
    /// Something follows that cannot be what was written.
    broken: bool,
    /// What frames of this log begin with.
    salts: [u8; 8],
}

impl Log {
    /// The log, where there is one with a header in it.
    fn open(path: &Path) -> io::Result<Option<Log>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut file = BufReader::with_capacity(1 << 16, file);
        let mut header = [0; HEADER];
        match file.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            read => read.map(|()| Some(Log { file, header })),
        }
    }

    fn walk(mut self) -> io::Result<Found> {
        let header = self.header;
        let number = |at: usize| big(&header[at..]);
        let (magic, page) = (number(0), number(8) as usize);
        let salts: [u8; 8] = std::array::from_fn(|at| header[16 + at]);
        let mut found = Found { committed: 0, broken: false, salts };
        let order = if magic & 1 == 1 { u32::from_be_bytes } else { u32::from_le_bytes };
        let mut sums = summed([0, 0], &header[..24], order);
        let is_header = magic & !1 == 0x377f_0682 && sums == [number(24), number(28)];
        if !is_header || !page.is_power_of_two() || !(512..=65536).contains(&page) {
            // Nothing but zeros was never written; anything else was.
            found.broken = header.iter().any(|&byte| byte != 0);
            return Ok(found);
        }
        let mut frame = vec![0; FRAME_HEADER + page];
        let mut frames = 0;
        let mut whole = true;
        while self.frame(&mut frame)? {
            frames += 1;
            // Frames with other salts are of an earlier round of the same file.
            let is_ours = frame[8..16] == salts;
            if whole {
                let next = summed(summed(sums, &frame[..8], order), &frame[FRAME_HEADER..], order);
                if is_ours && next == [big(&frame[16..]), big(&frame[20..])] {
                    sums = next;
                    if big(&frame[4..]) != 0 {
                        found.committed = frames;
                    }
                    continue;
                }
                // The first that does not fit may be a write that was cut off: then nothing of this round follows.
                whole = false;
            } else if is_ours {
                found.broken = true;
                break;
            }
        }
        Ok(found)
    }

    /// Reads the next frame; `false` where the file ends in it or before it.
    fn frame(&mut self, frame: &mut [u8]) -> io::Result<bool> {
        match self.file.read_exact(frame) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            read => read.map(|()| true),
        }
    }
}

/// How many frames SQLite's index says were committed. It outlives the process, and is two copies of one header.
fn committed(path: &Path, found: &Found) -> Option<u32> {
    const COPY: usize = 48;
    let mut index = [0; 2 * COPY];
    File::open(beside(path, "-shm")).ok()?.read_exact_at(&mut index, 0).ok()?;
    let is_of_this_log = index[..COPY] == index[COPY..] && index[32..40] == found.salts;
    is_of_this_log.then(|| u32::from_ne_bytes(std::array::from_fn(|at| index[16 + at])))
}

fn summed(sums: [u32; 2], bytes: &[u8], order: fn([u8; 4]) -> u32) -> [u32; 2] {
    let [mut first, mut second] = sums;
    for pair in bytes.as_chunks::<8>().0 {
        let [a, b, c, d, e, f, g, h] = *pair;
        first = first.wrapping_add(order([a, b, c, d])).wrapping_add(second);
        second = second.wrapping_add(order([e, f, g, h])).wrapping_add(first);
    }
    [first, second]
}

fn big(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|at| bytes[at]))
}
