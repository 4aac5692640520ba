//! Requests a certificate, with evidence (AT-30 to AT-36, AT-101, AT-160).

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_attestation::Reason;
use portcullis_attestation::hex::hex;
use portcullis_attestation::time::instant;
use portcullis_pki::evidence::{self, Envelope, Evidence, Phase};
use portcullis_pki::{IssuedCertificate, pem, sha256};
use serde_json::{Value, json};

use super::attestor::{Question, Subject};
use super::cache::{Generation, Meta, PendingRequest, text};
use super::error::AttestedError;
use super::key::NodeKey;
use super::node::{Credential, Node, NodeEvent};
use crate::attestation::{CHALLENGE, OfferText, SUPPORTED_VERSIONS, Stored};
use crate::call::REQUESTS;
use crate::connect::{Connection, Credential as Login, Parts};
use crate::node_certificate::files::failed;
use crate::watched::{Event, Watched};

/// The version of evidence that is written.
const VERSION: &str = "v1";
/// How often the request is read beside the watch (AT-34).
const POLL: Duration = Duration::from_secs(10);
/// How often the whole exchange is begun again in one run.
const ATTEMPTS: u32 = 3;
/// The least that must be left of a new certificate (AT-36).
const LEAST: Duration = Duration::from_secs(10 * 60);

/// The answer of the controller.
enum Answer {
    Challenge(Box<OfferText>),
    Issued(Vec<u8>),
    Refused {
        reason: String,
        message: String,
        versions: String,
    },
    /// The request is gone.
    Gone,
}

impl Node {
    /// Obtains a certificate. `present` is the current one, with which a renewal is authenticated.
    pub(super) async fn obtain(
        &self,
        present: Option<&Generation>,
        wait: Duration,
    ) -> Result<Credential, AttestedError> {
        let began = self.clock.running();
        let connection = self.connect(present).await?;
        let mut repeated = 0;
        loop {
            let left = wait.saturating_sub(self.clock.running().saturating_sub(began));
            let key = self.pending_key().await?;
            let outcome = self.exchange(&connection, &key, left).await?;
            let (reason, message) = match outcome {
                Outcome::Issued(stored, certificate) => return self.install(&stored, &certificate, key),
                Outcome::Gone => ("Gone".to_owned(), "the request was deleted".to_owned()),
                Outcome::Refused { reason, message } => (reason, message),
            };
            self.cache.forget_pending_request()?;
            let may_pass = reason == "Gone" || Reason::named(&reason).is_some_and(Reason::may_ask_again);
            repeated += 1;
            if !may_pass {
                // The key was refused for good (AT-21).
                self.cache.forget_pending()?;
                return Err(AttestedError::Refused { reason, message });
            }
            if repeated >= ATTEMPTS {
                return Err(AttestedError::Temporary(format!("{reason}: {message}")));
            }
            self.tell(NodeEvent::Repeating { reason })?;
        }
    }

    /// The credential for requests: the certificate that is to be renewed, else the bootstrap credential (AT-31).
    async fn connect(&self, present: Option<&Generation>) -> Result<Connection, AttestedError> {
        let now = self.clock.now();
        let bootstrap = self.settings.bootstrap_kubeconfig.as_deref();
        let is_intact = |generation: &&Generation| {
            now < generation.certificate.not_after()
                && generation.certificate.public_key_der() == generation.key.public_der()
        };
        let login = match present.filter(is_intact).map(|generation| (generation, &generation.key)) {
            Some((generation, NodeKey::Software(key))) => Some(Login::Certificate {
                certificate: generation.certificate.to_pem().into_bytes(),
                key: key.to_pem().into_bytes(),
            }),
            // DIVERGES: without the proxy, a key that never leaves the TPM cannot authenticate the renewal, so the
            // bootstrap credential does (AT-31).
            Some((_, NodeKey::Resident(_))) => match &self.settings.proxy {
                Some(proxy) => return Ok(Connection::from_parts(proxy.clone()).await?),
                None => None,
            },
            None => None,
        };
        if let Some(login) = login {
            return match (&self.settings.server, bootstrap) {
                (Some(server), _) => {
                    Ok(Connection::from_parts(Parts { credential: login, ..server.clone() }).await?)
                }
                (None, Some(path)) => Ok(Connection::to_server_of(path, login).await?),
                (None, None) => Err(AttestedError::NoCredential(
                    "nothing says where the API server is: pass --bootstrap-kubeconfig or provideClusterInfo: true"
                        .to_owned(),
                )),
            };
        }
        let none = || AttestedError::NoCredential("pass --bootstrap-kubeconfig".to_owned());
        let path = bootstrap.ok_or_else(none)?;
        let mode = match std::fs::metadata(path) {
            Ok(found) => found.mode(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(AttestedError::NoCredential(format!("{} does not exist", path.display())));
            }
            Err(error) => return Err(failed("read", path)(error).into()),
        };
        if mode & 0o007 != 0 {
            return Err(AttestedError::Integrity(format!(
                "{} is accessible to everybody: chmod 0600 it, and replace the credentials in it",
                path.display()
            )));
        }
        Ok(Connection::from_kubeconfig(path, None).await?)
    }

    /// The key of the interrupted request, or a new one (AT-21).
    async fn pending_key(&self) -> Result<Arc<NodeKey>, AttestedError> {
        let kept = self.cache.pending_key(self.attestor.tpm(), self.clock.now())?;
        let key = match kept {
            Some(key) => key,
            None => {
                let attestor = Arc::clone(&self.attestor);
                let key = blocking(move || attestor.new_key()).await?;
                self.cache.keep_pending_key(&key)?;
                key
            }
        };
        self.tell(NodeEvent::KeyReady)?;
        Ok(Arc::new(key))
    }

    /// One or two requests, up to a certificate or a refusal.
    async fn exchange(
        &self,
        connection: &Connection,
        key: &Arc<NodeKey>,
        wait: Duration,
    ) -> Result<Outcome, AttestedError> {
        let began = self.clock.running();
        let mut phase = if self.attestor.has_challenge() { Phase::Enrol } else { Phase::Single };
        let mut resumed = self.resumed(connection, key).await?;
        let mut question = None;
        loop {
            let stored = match resumed.take() {
                Some((stored, found)) => {
                    phase = found;
                    stored
                }
                None => self.request(connection, key, phase, question.take()).await?,
            };
            self.tell(NodeEvent::Requested { name: stored.metadata.name.clone(), phase: phase.as_str() })?;
            let left = wait.saturating_sub(self.clock.running().saturating_sub(began));
            match self.wait_for(connection, &stored, phase, left).await? {
                Answer::Issued(certificate) => return Ok(Outcome::Issued(Box::new(stored), certificate)),
                Answer::Gone => return Ok(Outcome::Gone),
                Answer::Refused { reason, versions, .. }
                    if reason == Reason::UnsupportedAttestationVersion.as_str()
                        && !versions.split(',').any(|version| version.trim() == VERSION) =>
                {
                    self.cache.forget_pending_request()?;
                    return Err(AttestedError::Version(versions));
                }
                Answer::Refused { reason, message, .. } => return Ok(Outcome::Refused { reason, message }),
                Answer::Challenge(offer) => {
                    self.tell(NodeEvent::Challenged { name: stored.metadata.name.clone() })?;
                    phase = Phase::Prove;
                    question = Some(offer);
                }
            }
        }
    }

    /// The request of an interrupted run, if it is really ours (AT-33).
    async fn resumed(
        &self,
        connection: &Connection,
        key: &NodeKey,
    ) -> Result<Option<(Stored, Phase)>, AttestedError> {
        let Some(kept) = self.cache.pending_request() else { return Ok(None) };
        let phases = [Phase::Single, Phase::Enrol, Phase::Prove];
        let phase = phases.into_iter().find(|phase| phase.as_str() == kept.phase);
        let found: Option<Stored> = connection.find(&REQUESTS, &kept.name).await?;
        let ours = found.zip(phase).filter(|(stored, _)| {
            let is_same = stored.metadata.uid == kept.uid
                && hex(&sha256(stored.spec.request.as_bytes())) == kept.digest;
            is_same && stored.spec.signer_name == self.settings.signer && has_key(stored, key)
        });
        if ours.is_none() {
            self.cache.forget_pending_request()?;
        }
        Ok(ours)
    }

    /// Creates a request with evidence (AT-32, AT-50).
    async fn request(
        &self,
        connection: &Connection,
        key: &Arc<NodeKey>,
        phase: Phase,
        offer: Option<Box<OfferText>>,
    ) -> Result<Stored, AttestedError> {
        let (attestor, key, template) = (Arc::clone(&self.attestor), Arc::clone(key), self.template.clone());
        let (node_name, provider_id) = (self.settings.node_name.clone(), self.settings.provider_id.clone());
        let now = self.clock.now();
        let is_rsa = key.is_rsa();
        // The TPM may take seconds.
        let pem = blocking(move || {
            let pem = key.request(&template)?;
            let csr_digest = sha256(&pem::first(pem.as_bytes()).map(|block| block.der).unwrap_or_default());
            let member = match &offer {
                None => attestor.enrol(&key)?,
                Some(offer) => {
                    let subject =
                        Subject { csr_digest: &csr_digest, node_name: &node_name, provider_id: &provider_id };
                    Some(attestor.prove(&key, &question(offer)?, &subject)?)
                }
            };
            let envelope = Envelope {
                provider: attestor.provider().to_owned(),
                phase,
                created_at: instant(now),
                node_name,
                provider_id,
                csr_digest,
                challenge_id: offer.map(|offer| offer.challenge_id),
                member: None,
            };
            let evidence = Evidence { provider: envelope.provider.clone(), data: envelope.write(member) };
            Ok(evidence::write(&pem, &evidence))
        })
        .await?;
        let request = STANDARD.encode(&pem);
        let mut usages = vec!["digital signature", "client auth"];
        if is_rsa {
            usages.push("key encipherment");
        }
        let mut spec = json!({"request": request, "signerName": self.settings.signer, "usages": usages});
        if let (Some(seconds), Some(spec)) = (self.settings.expiration_seconds, spec.as_object_mut()) {
            spec.insert("expirationSeconds".to_owned(), seconds.into());
        }
        let object: Value = json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"generateName": "node-csr-"},
            "spec": spec,
        });
        let stored: Stored = connection.create(&REQUESTS, &object).await?;
        self.cache.keep_pending_request(&PendingRequest {
            name: stored.metadata.name.clone(),
            uid: stored.metadata.uid.clone(),
            phase: phase.as_str().to_owned(),
            digest: hex(&sha256(request.as_bytes())),
        })?;
        Ok(stored)
    }

    /// Waits for the answer: by a watch, and by reading the request now and then (AT-34).
    async fn wait_for(
        &self,
        connection: &Connection,
        stored: &Stored,
        phase: Phase,
        wait: Duration,
    ) -> Result<Answer, AttestedError> {
        let (name, uid) = (&stored.metadata.name, &stored.metadata.uid);
        let began = self.clock.running();
        let only = Some(format!("metadata.name={name}"));
        let mut watched = Watched::<Stored>::new(connection, REQUESTS, only);
        let mut latest = Some(stored.clone());
        loop {
            if let Some(stored) = latest.take() {
                if stored.metadata.uid != *uid {
                    return Ok(Answer::Gone);
                }
                if let Some(answer) = answer(&stored, phase, self.clock.now()) {
                    return Ok(answer);
                }
            }
            let since = self.clock.running().saturating_sub(began);
            if since >= wait {
                return Err(AttestedError::Temporary(format!(
                    "the request {name} is not answered after {} s; it stays, and the next run goes on waiting",
                    since.as_secs()
                )));
            }
            tokio::select! {
                event = watched.next() => match event {
                    Event::Listed(stored) | Event::Applied(stored) => latest = Some(stored),
                    Event::Deleted(_) => return Ok(Answer::Gone),
                    Event::Restarted | Event::Synced | Event::Current | Event::Resumed => {}
                    Event::Unreadable { why, .. } => return Err(AttestedError::Temporary(why)),
                    Event::Failed { why, .. } => self.tell(NodeEvent::Trouble(why))?,
                },
                () = self.clock.sleep((wait - since).min(POLL)) => {
                    match connection.find::<Stored>(&REQUESTS, name).await {
                        Ok(Some(stored)) => latest = Some(stored),
                        Ok(None) => return Ok(Answer::Gone),
                        Err(error) => self.tell(NodeEvent::Trouble(error.to_string()))?,
                    }
                }
            }
        }
    }

    /// Checks the certificate and makes it the current one (AT-20, AT-36).
    fn install(
        &self,
        stored: &Stored,
        certificate: &[u8],
        key: Arc<NodeKey>,
    ) -> Result<Credential, AttestedError> {
        let certificate = IssuedCertificate::from_pem(certificate).map_err(|why| unusable(&why))?;
        check(&certificate, &key, &self.template, self.clock.now()).map_err(unusable)?;
        self.tell(NodeEvent::Received)?;
        let meta = Meta {
            format: 1,
            node_name: self.settings.node_name.clone(),
            provider: self.attestor.provider().to_owned(),
            signer: self.settings.signer.clone(),
            csr_name: stored.metadata.name.clone(),
            csr_uid: stored.metadata.uid.clone(),
            public_key: hex(&sha256(key.public_der())),
            not_before: text(certificate.not_before()),
            not_after: text(certificate.not_after()),
            attestation_version: VERSION.to_owned(),
        };
        let name = self.cache.write(&certificate, &key, &meta)?;
        self.tell(NodeEvent::Written)?;
        self.cache.switch_to(&name)?;
        self.tell(NodeEvent::Switched { not_after: certificate.not_after() })?;
        self.cache.forget_pending()?;
        let key = Arc::try_unwrap(key)
            .map_err(|_| AttestedError::Integrity("the key is still in use".to_owned()))?;
        Ok(Credential { certificate, key })
    }
}

/// The end of an exchange.
enum Outcome {
    Issued(Box<Stored>, Vec<u8>),
    Refused { reason: String, message: String },
    Gone,
}

fn unusable(why: &str) -> AttestedError {
    AttestedError::Integrity(format!("the certificate that was issued is not used: {why}"))
}

/// Whether the certificate is what was asked for (AT-36).
fn check(
    certificate: &IssuedCertificate,
    key: &NodeKey,
    template: &portcullis_pki::Request,
    now: SystemTime,
) -> Result<(), &'static str> {
    if certificate.public_key_der() != key.public_der() {
        return Err("it is for another key");
    }
    let is_same = certificate.common_name() == template.common_name
        && certificate.organizations() == template.organizations;
    if !is_same {
        return Err("it is for another name");
    }
    if !certificate.is_for_clients_only() {
        return Err("it is not a certificate for clients alone");
    }
    let left = certificate.not_after().duration_since(now).unwrap_or_default();
    if left < LEAST { Err("it expires within ten minutes") } else { Ok(()) }
}

/// What the controller answered so far.
fn answer(stored: &Stored, phase: Phase, now: SystemTime) -> Option<Answer> {
    for kind in ["Denied", "Failed"] {
        if let Some(condition) = stored.status.conditions.iter().find(|condition| condition.kind == kind) {
            let versions = stored.metadata.annotations.get(SUPPORTED_VERSIONS);
            return Some(Answer::Refused {
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                versions: versions.cloned().unwrap_or_default(),
            });
        }
    }
    if !stored.status.certificate.is_empty() {
        return Some(Answer::Issued(STANDARD.decode(&stored.status.certificate).unwrap_or_default()));
    }
    if phase != Phase::Enrol {
        return None;
    }
    let offer: OfferText = serde_json::from_str(stored.metadata.annotations.get(CHALLENGE)?).ok()?;
    offer.is_live(now).then(|| Answer::Challenge(Box::new(offer)))
}

/// The challenge in the annotation.
fn question(offer: &OfferText) -> Result<Question, AttestedError> {
    let malformed = || AttestedError::Temporary("the challenge of the controller is malformed".to_owned());
    let bytes =
        |text: &Option<String>| STANDARD.decode(text.as_deref().unwrap_or_default()).map_err(|_| malformed());
    let nonce = STANDARD.decode(&offer.nonce).ok().and_then(|nonce| nonce.try_into().ok());
    Ok(Question {
        nonce: nonce.ok_or_else(malformed)?,
        credential_blob: bytes(&offer.credential_blob)?,
        encrypted_secret: bytes(&offer.encrypted_secret)?,
    })
}

/// Whether a stored request is for this key.
fn has_key(stored: &Stored, key: &NodeKey) -> bool {
    let pem = STANDARD.decode(&stored.spec.request).unwrap_or_default();
    let read = evidence::read(&pem, evidence::Labels::Exact);
    read.is_ok_and(|request| request.csr.public_key_der() == key.public_der())
}

/// Runs what may block for seconds.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AttestedError> + Send + 'static,
) -> Result<T, AttestedError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(AttestedError::Temporary(error.to_string())),
    }
}
