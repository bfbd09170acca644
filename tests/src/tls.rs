//! A certificate authority of our own, and a server's end of TLS.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// An authority, and a certificate of it for `localhost` and `127.0.0.1`.
pub struct Authority {
    /// The authority's certificate in PEM, as `SSL_CERT_FILE` wants it.
    pub pem: String,
    pub(crate) acceptor: TlsAcceptor,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// A new one, with keys of its own.
    ///
    /// # Panics
    /// Where keys cannot be made.
    pub fn new() -> Self {
        let root_key = KeyPair::generate().expect("a key");
        let mut root = CertificateParams::new(Vec::new()).expect("no names");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = root.self_signed(&root_key).expect("a certificate").pem();
        let issuer = Issuer::new(root, root_key);
        let key = KeyPair::generate().expect("a key");
        let leaf = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])
            .and_then(|params| params.signed_by(&key, &issuer))
            .expect("a certificate");
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has them")
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], private)
            .expect("key and certificate fit");
        Self { pem, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }
}
