//! `portcullis credential --attestor`: the credential plugin of a node that proves its machine (AT-6, AT-10, AT-16).

use std::io::Write as _;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use portcullis_attestation::KeyClass;
use portcullis_attestation::signers::{Purpose, normalized, signer};
use portcullis_client::attested_certificate::attestor::Attestor;
use portcullis_client::attested_certificate::challenge::{ChallengeResponse, Enrolment};
use portcullis_client::attested_certificate::error::AttestedError;
use portcullis_client::attested_certificate::insecure::Insecure;
use portcullis_client::attested_certificate::key::NodeKey;
use portcullis_client::attested_certificate::tpm::{PCRS, TpmAttestor};
use portcullis_client::attested_certificate::{Credential, Node, NodeEvent, Observer, Settings, validity};
use portcullis_client::connect::{Credential as Login, Parts};
use portcullis_client::node_certificate::exec::{self, Version};
use portcullis_client::node_certificate::files::read_private;
use portcullis_client::tpm_proxy::{Proxy, ProxyIdentity, ProxyOptions};
use portcullis_client::{Connection, SystemClock};
use portcullis_pki::KeyPair;
use portcullis_pki::tls::RemoteKey;
use portcullis_tpm::{Address, EndorsementKind, Pcrs, Tpm};
use serde_json::json;

use crate::limit_flags::duration;
use crate::signals::StopSignals;

/// The longest time to wait (AT-15).
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// How often the proxy looks whether its certificate is due.
const KEEP: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Args, Debug)]
#[command(next_help_heading = "Attestation")]
pub(super) struct AttestedFlags {
    /// Prove the machine in this way
    #[arg(long, value_name = "NAME", requires = "provider_id", requires = "cache_dir")]
    pub(super) attestor: Option<AttestorName>,

    /// The provider ID of the machine, such as metal://rack-1/node-1
    #[arg(long, value_name = "ID", requires = "attestor")]
    provider_id: Option<String>,

    /// The directory of keys and certificates, with the mode 0700
    #[arg(long, value_name = "DIR", requires = "attestor")]
    cache_dir: Option<PathBuf>,

    /// The signer [default: cluster.x-k8s.io/kube-apiserver-client-kubelet-ATTESTOR]
    #[arg(long, value_name = "NAME", requires = "attestor")]
    signer: Option<String>,

    /// How long to wait for a certificate with --attestor, at most 60m
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration)]
    attestation_wait: Duration,

    /// The age at which a certificate is renewed, whatever its lifetime [default: none]
    #[arg(long, value_name = "TIME", requires = "attestor", value_parser = duration)]
    max_age: Option<Duration>,

    /// The file with the enrolled private key in PEM, for --attestor challenge
    #[arg(long, value_name = "FILE", requires = "attestor", conflicts_with = "challenge_secret_file")]
    challenge_key_file: Option<PathBuf>,

    /// The file with the one-time secret, for --attestor challenge
    #[arg(long, value_name = "FILE", requires = "attestor")]
    challenge_secret_file: Option<PathBuf>,

    /// The TPM: a device, unix:SOCKET or tcp:HOST:PORT [default: /dev/tpmrm0, else /dev/tpm0]
    #[arg(long, value_name = "ADDRESS", requires = "attestor")]
    tpm: Option<String>,

    /// The endorsement key of the TPM [default: the first one with a certificate]
    #[arg(long, value_name = "KIND", requires = "attestor")]
    tpm_endorsement_key: Option<EndorsementKey>,

    /// Keep running, and let the kubelet of this machine use the certificate through this loopback address: the key stays
    /// in the TPM. Writes proxy.kubeconfig into --cache-dir
    #[arg(long, value_name = "ADDRESS:PORT", requires = "attestor", conflicts_with = "once")]
    proxy_listen: Option<SocketAddr>,

    /// The user whose connections --proxy-listen accepts [default: the running user]
    #[arg(long, value_name = "UID", requires = "proxy_listen")]
    proxy_uid: Option<u32>,

    /// The class of new keys. K1: a software key that the TPM certified, for clients that need the key; K2: a key that
    /// never leaves the TPM; K3: as K2, and bound to PCRs
    #[arg(long, value_name = "CLASS", default_value = "K2")]
    key_class: Class,

    /// The PCRs of quotes, which keys of class K3 are bound to
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = PCRS)]
    pcrs: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AttestorName {
    /// By the TPM of the machine.
    Tpm,
    /// By an enrolled key or a one-time secret.
    Challenge,
    /// Not at all: as secure as the bootstrap token.
    Insecure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EndorsementKey {
    /// RSA-2048.
    Rsa2048,
    /// P-256.
    P256,
    /// P-384.
    P384,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Class {
    /// A software key that the TPM certified.
    #[value(name = "K1", alias = "k1")]
    K1,
    /// A key that never leaves the TPM.
    #[value(name = "K2", alias = "k2")]
    K2,
    /// As K2, and bound to PCRs.
    #[value(name = "K3", alias = "k3")]
    K3,
}

/// The flags that both modes have.
pub(super) struct Asked {
    pub(super) node_name: String,
    pub(super) bootstrap_kubeconfig: Option<PathBuf>,
    pub(super) expiration_seconds: Option<i32>,
    /// Whether nothing is printed on standard output.
    pub(super) is_quiet: bool,
}

/// Runs the plugin.
pub(super) fn run(attestor: AttestorName, flags: &AttestedFlags, asked: Asked) -> ExitCode {
    match credential(attestor, flags, asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let line = json!({
                "level": "error",
                "event": "failed",
                "message": error.to_string(),
                "exitCode": error.exit_code(),
            });
            tell(&line);
            ExitCode::from(error.exit_code())
        }
    }
}

fn credential(name: AttestorName, flags: &AttestedFlags, asked: Asked) -> Result<(), AttestedError> {
    // Core dumps would hold the key (AT-22).
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    let usage = |why: String| AttestedError::Usage(why);
    let info = match std::env::var(exec::VARIABLE) {
        Ok(info) if !info.is_empty() => Some(exec::info(&info).map_err(|error| usage(error.to_string()))?),
        Ok(_) | Err(std::env::VarError::NotPresent) => None,
        Err(error) => return Err(usage(format!("{}: {error}", exec::VARIABLE))),
    };
    let is_verified = info.as_ref().is_none_or(|info| !info.is_insecure);
    if !is_verified && name != AttestorName::Insecure {
        return Err(usage("insecure-skip-tls-verify is for --attestor insecure only (AT-38)".to_owned()));
    }
    if flags.attestation_wait > LONGEST_WAIT {
        return Err(usage("--attestation-wait: at most 60m".to_owned()));
    }
    let (Some(provider_id), Some(cache_dir)) = (&flags.provider_id, &flags.cache_dir) else {
        return Err(usage("--attestor needs --provider-id and --cache-dir".to_owned()));
    };
    let attestor = attestor(name, flags, cache_dir)?;
    let version = info.as_ref().map_or(Version::V1Beta1, |info| info.version);
    let hands_out = flags.proxy_listen.is_none() && (!asked.is_quiet || info.is_some());
    if hands_out && name == AttestorName::Tpm && flags.key_class != Class::K1 {
        return Err(usage(
            "a key that never leaves the TPM cannot be handed to the client: pass --proxy-listen, or --key-class K1, or \
             --once to keep the certificate in --cache-dir"
                .to_owned(),
        ));
    }
    let signer = match &flags.signer {
        Some(name) => normalized(name).0,
        None => signer(Purpose::Client, attestor.provider()),
    };
    let settings = Settings {
        node_name: asked.node_name,
        provider_id: provider_id.clone(),
        signer,
        cache_dir: cache_dir.clone(),
        bootstrap_kubeconfig: asked.bootstrap_kubeconfig,
        server: info.and_then(|info| info.server),
        proxy: None,
        expiration_seconds: asked.expiration_seconds,
        max_age: flags.max_age,
        wait: flags.attestation_wait,
    };
    let is_new = Arc::new(AtomicBool::new(false));
    let noticed = Arc::clone(&is_new);
    let observer: Observer = Arc::new(move |event: &NodeEvent| {
        if matches!(event, NodeEvent::Switched { .. }) {
            noticed.store(true, Ordering::Relaxed);
        }
        tell(&line(event));
        ControlFlow::Continue(())
    });
    let clock = Arc::new(SystemClock::new());
    if let Some(listen) = flags.proxy_listen {
        let uid = flags.proxy_uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        let runtime =
            tokio::runtime::Runtime::new().map_err(|error| AttestedError::Temporary(error.to_string()))?;
        return runtime.block_on(serve(listen, uid, settings, attestor, observer));
    }
    let node = Node::new(settings, attestor, clock, observer)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| AttestedError::Temporary(error.to_string()))?;
    let Credential { certificate, key } = runtime.block_on(node.credential())?;
    if !hands_out {
        if !is_new.load(Ordering::Relaxed) {
            tell(&dated("cached", certificate.not_after()));
        }
        return Ok(());
    }
    let NodeKey::Software(key) = key else {
        return Err(usage("the key in --cache-dir never leaves the TPM: pass --once".to_owned()));
    };
    let until = validity::expiration(&certificate, SystemTime::now());
    let text = exec::credential_of(version, &certificate.to_pem(), &key.to_pem(), until);
    let mut out = std::io::stdout().lock();
    let printed = writeln!(out, "{text}").and_then(|()| out.flush());
    printed.map_err(|error| AttestedError::Temporary(format!("cannot write the output: {error}")))
}

/// Keeps a certificate, and serves the proxy with it, until a signal.
async fn serve(
    listen: SocketAddr,
    allowed_uid: u32,
    settings: Settings,
    attestor: Arc<dyn Attestor>,
    observer: Observer,
) -> Result<(), AttestedError> {
    let usage = |why: String| AttestedError::Usage(why);
    let (server, certificate_authority) = match (&settings.server, &settings.bootstrap_kubeconfig) {
        (Some(parts), _) => (parts.server.clone(), parts.certificate_authority.clone()),
        (None, Some(path)) => {
            let connection = Connection::from_kubeconfig(path, None).await?;
            (connection.server(), connection.certificate_authority().into_bytes())
        }
        (None, None) => return Err(usage("--proxy-listen needs --bootstrap-kubeconfig".to_owned())),
    };
    // The directory is checked before anything is written into it.
    let clock = Arc::new(SystemClock::new());
    Node::new(settings.clone(), Arc::clone(&attestor), clock.clone(), Arc::clone(&observer))?;
    let options =
        ProxyOptions { listen, server, certificate_authority, allowed_uid, dir: settings.cache_dir.clone() };
    let proxy = Proxy::listen(&options).await.map_err(|error| usage(error.to_string()))?;
    let (address, files, identity) = (proxy.address(), proxy.files().clone(), proxy.identity());
    let own = Connection::from_kubeconfig(&files.kubeconfig, None).await?;
    let pair = read_private(&files.client)?.unwrap_or_default();
    let through = Parts {
        server: own.server(),
        certificate_authority: own.certificate_authority().into_bytes(),
        credential: Login::Certificate { certificate: pair.clone(), key: pair },
    };
    let node = Node::new(Settings { proxy: Some(through), ..settings }, attestor, clock, observer)?;
    let mut stop = StopSignals::handle().map_err(|error| AttestedError::Temporary(error.to_string()))?;
    tell(&json!({
        "level": "info", "event": "listening", "address": address.to_string(),
        "kubeconfig": files.kubeconfig.display().to_string(),
    }));
    tokio::select! {
        () = proxy.run() => Ok(()),
        failed = keep(&node, &identity) => Err(failed),
        () = stop.received() => Ok(()),
    }
}

/// Renews the certificate and gives it to the proxy. Returns only for errors that do not pass.
async fn keep(node: &Node, identity: &ProxyIdentity) -> AttestedError {
    let mut current = String::new();
    // A renewal goes through the proxy, which needs the certificate that is there.
    let mut next = node.cached().await.transpose();
    loop {
        let result = match next.take() {
            Some(cached) => cached,
            None => node.credential().await,
        };
        match result {
            Ok(credential) => match hand_over(credential, &mut current, identity) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => return error,
            },
            Err(error @ (AttestedError::Temporary(_) | AttestedError::Refused { .. })) => {
                tell(&json!({"level": "warning", "event": "trouble", "message": error.to_string()}));
            }
            Err(error) => return error,
        }
        tokio::time::sleep(KEEP).await;
    }
}

/// Gives a certificate to the proxy. Returns whether it is a new one.
fn hand_over(
    credential: Credential,
    current: &mut String,
    identity: &ProxyIdentity,
) -> Result<bool, AttestedError> {
    let text = credential.certificate.to_pem();
    if text == *current {
        return Ok(false);
    }
    let NodeKey::Resident(key) = credential.key else {
        let why = "the key in --cache-dir is in software: use another --cache-dir";
        return Err(AttestedError::Usage(why.to_owned()));
    };
    let key: Arc<dyn RemoteKey> = Arc::from(key as Box<dyn RemoteKey>);
    identity.replace(text.as_bytes(), key).map_err(|error| AttestedError::Integrity(error.to_string()))?;
    tell(&json!({"level": "info", "event": "serving"}));
    *current = text;
    Ok(true)
}

fn attestor(
    name: AttestorName,
    flags: &AttestedFlags,
    cache_dir: &Path,
) -> Result<Arc<dyn Attestor>, AttestedError> {
    let usage = |why: String| AttestedError::Usage(why);
    Ok(match name {
        AttestorName::Insecure => Arc::new(Insecure),
        AttestorName::Challenge => {
            let secret = |path: &Path| -> Result<Vec<u8>, AttestedError> {
                read_private(path)?.ok_or_else(|| usage(format!("{} does not exist", path.display())))
            };
            let enrolment = match (&flags.challenge_key_file, &flags.challenge_secret_file) {
                (Some(path), _) => {
                    let key = KeyPair::from_pem(&secret(path)?);
                    Enrolment::Key(key.map_err(|error| usage(format!("{}: {error}", path.display())))?)
                }
                (None, Some(path)) => Enrolment::Secret(secret(path)?.trim_ascii().to_vec()),
                (None, None) => {
                    return Err(usage(
                        "--attestor challenge needs --challenge-key-file or --challenge-secret-file"
                            .to_owned(),
                    ));
                }
            };
            Arc::new(ChallengeResponse { enrolment })
        }
        AttestorName::Tpm => {
            let address = match &flags.tpm {
                Some(text) => text.parse().map_err(|error| usage(format!("--tpm: {error}")))?,
                None => {
                    Address::of_this_machine().map_err(|error| AttestedError::Temporary(error.to_string()))?
                }
            };
            Arc::new(TpmAttestor {
                tpm: Tpm::at(address),
                endorsement_key: flags.tpm_endorsement_key.map(|kind| match kind {
                    EndorsementKey::Rsa2048 => EndorsementKind::Rsa2048,
                    EndorsementKey::P256 => EndorsementKind::P256,
                    EndorsementKey::P384 => EndorsementKind::HighP384,
                }),
                key_class: match flags.key_class {
                    Class::K1 => KeyClass::K1,
                    Class::K2 => KeyClass::K2,
                    Class::K3 => KeyClass::K3,
                },
                pcrs: Pcrs::new(&flags.pcrs).map_err(|error| usage(format!("--pcrs: {error}")))?,
                attestation_key: cache_dir.join("ak.tpm"),
            })
        }
    })
}

/// Prints one line of JSON on standard error. Errors of standard error are ignored.
fn tell(line: &serde_json::Value) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn line(event: &NodeEvent) -> serde_json::Value {
    let info = |event: &str| json!({"level": "info", "event": event});
    match event {
        NodeEvent::Unusable(why) => json!({"level": "info", "event": "cacheUnusable", "message": why}),
        NodeEvent::Renewing => info("renewing"),
        NodeEvent::KeyReady => info("keyReady"),
        NodeEvent::Requested { name, phase } => {
            json!({"level": "info", "event": "requested", "csr": name, "phase": phase})
        }
        NodeEvent::Challenged { name } => json!({"level": "info", "event": "challenged", "csr": name}),
        NodeEvent::Repeating { reason } => {
            json!({"level": "warning", "event": "repeating", "reason": reason})
        }
        NodeEvent::Received => info("received"),
        NodeEvent::Written => info("written"),
        NodeEvent::Switched { not_after } => dated("switched", *not_after),
        NodeEvent::Trouble(why) => json!({"level": "warning", "event": "trouble", "message": why}),
        NodeEvent::ClockWentBack => json!({"level": "warning", "event": "ClockWentBack"}),
    }
}

/// The line of an event about a certificate that is valid until `not_after`.
fn dated(event: &str, not_after: SystemTime) -> serde_json::Value {
    let not_after = portcullis_attestation::time::instant(not_after).to_string();
    json!({"level": "info", "event": event, "notAfter": not_after})
}
