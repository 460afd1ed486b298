//! Encrypted connections, by rustls with ring.

use super::StartError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, crypto};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use tokio_rustls::TlsAcceptor;

/// A certificate chain and its key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, then those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Makes ring the cryptography of everything in this process that does not choose its own; clients need it too.
pub fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Where somebody else was first, theirs serves as well.
        let _ = crypto::ring::default_provider().install_default();
    });
}

pub(super) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, StartError> {
    let unusable = |what: &str, path: &Path, reason: String| {
        StartError::Tls(format!("cannot use {} as {what}: {reason}", path.display()))
    };
    let certificate = |reason: String| unusable("a certificate", &files.certificate, reason);
    let chain: Vec<CertificateDer> = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect)
        .map_err(|error| certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(certificate("it contains none".to_string()));
    }
    // What is wrong with a key is said without any of its text.
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| unusable("a private key", &files.key, error.to_string()))?;
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StartError::Tls(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| certificate(format!("with the key {}: {error}", files.key.display())))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
