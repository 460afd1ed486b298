//! Checksums as hubs have them: SHA-256 for large files, git's SHA-1 of a blob for small ones.

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// What a file's bytes have to add up to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Of the bytes.
    Sha256(String),
    /// Of `blob LENGTH`, a zero, and the bytes.
    GitBlob(String),
}

impl Checksum {
    /// From what a hub writes as an entity tag: quotes and a mark of weakness do not count.
    pub fn from_tag(tag: &str) -> Option<Checksum> {
        let hex = tag.trim().trim_start_matches("W/").trim_matches('"').to_ascii_lowercase();
        let is_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        match hex.len() {
            64 if is_hex => Some(Checksum::Sha256(hex)),
            40 if is_hex => Some(Checksum::GitBlob(hex)),
            _ => None,
        }
    }

    /// As text.
    pub fn hex(&self) -> &str {
        match self {
            Checksum::Sha256(hex) | Checksum::GitBlob(hex) => hex,
        }
    }

    /// Adds up a file of this length.
    pub fn start(&self, length: u64) -> Sum {
        match self {
            Checksum::Sha256(_) => Sum::Sha256(Sha256::new()),
            Checksum::GitBlob(_) => {
                let mut sum = Sha1::new();
                sum.update(format!("blob {length}\0"));
                Sum::GitBlob(sum)
            }
        }
    }
}

/// A sum that grows.
#[derive(Clone)]
pub enum Sum {
    /// See [`Checksum::Sha256`].
    Sha256(Sha256),
    /// See [`Checksum::GitBlob`].
    GitBlob(Sha1),
}

impl Sum {
    /// More bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        match self {
            Sum::Sha256(sum) => sum.update(bytes),
            Sum::GitBlob(sum) => sum.update(bytes),
        }
    }

    /// Whether they add up to this.
    pub fn is(self, expected: &Checksum) -> bool {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let found = match self {
            Sum::Sha256(sum) => hex(&sum.finalize()),
            Sum::GitBlob(sum) => hex(&sum.finalize()),
        };
        found == expected.hex()
    }
}

#[cfg(test)]
mod tests {
    use super::Checksum;

    #[test]
    fn tags_of_both_kinds_and_of_none() {
        let blob = Checksum::from_tag("W/\"CE013625030BA8DBA906F756967F9E9CA394464A\"").unwrap();
        assert_eq!(blob, Checksum::GitBlob("ce013625030ba8dba906f756967f9e9ca394464a".to_string()));
        let sha = Checksum::from_tag(&format!("\"{}\"", "0".repeat(64))).unwrap();
        assert!(matches!(sha, Checksum::Sha256(_)));
        for none in ["", "\"abc\"", "\"xyz013625030ba8dba906f756967f9e9ca394464\""] {
            assert_eq!(Checksum::from_tag(none), None);
        }
    }

    #[test]
    fn a_blob_adds_up_as_git_has_it() {
        // `echo hello | git hash-object --stdin`
        let expected = Checksum::from_tag("ce013625030ba8dba906f756967f9e9ca394464a").unwrap();
        let mut sum = expected.start(6);
        sum.add(b"hel");
        sum.add(b"lo\n");
        assert!(sum.is(&expected));
        assert!(!expected.start(6).is(&expected));
    }
}
