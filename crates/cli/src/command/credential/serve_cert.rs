//! `portcullis credential serve-cert`: the serving certificate of a kubelet, from the signer of an attestor (AT-172).

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use portcullis_attestation::signers::{self, Purpose};
use portcullis_client::SystemClock;
use portcullis_client::node_certificate::agent::{Agent, ServingSettings, Settings};

use super::agent::{failure, host_name, narrator};
use crate::failure::Failure;
use crate::signals::StopSignals;

/// Get the serving certificate of a kubelet from the signer of an attestor, and renew it
///
/// For clusters whose attestation controller signs serving certificates itself (serving: sign). Asks for the addresses in
/// the Node object, and writes the certificate and its key into kubelet-server-current.pem, which is both tlsCertFile and
/// tlsPrivateKeyFile in the configuration of the kubelet.
///
/// Exit codes: 0 there is a certificate, or told to stop; 1 refused; 2 bad flags or files; 3 the server cannot be
/// reached, or nobody has approved in time.
#[derive(Args, Debug)]
pub(super) struct ServeCertArgs {
    /// The kubeconfig with which the node is a client, such as proxy.kubeconfig of the TPM proxy
    #[arg(long, value_name = "FILE")]
    client_kubeconfig: PathBuf,

    /// The signer, such as cluster.x-k8s.io/kubelet-serving-tpm
    #[arg(long, value_name = "NAME")]
    signer: String,

    /// The directory of keys and certificates
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet/pki")]
    cert_dir: PathBuf,

    /// The name of the node [default: the host's name in lower case]
    #[arg(long, visible_alias = "hostname-override", value_name = "NAME")]
    node_name: Option<String>,

    /// Exit as soon as there is a certificate; renew one that is due
    #[arg(long)]
    once: bool,

    /// The timeout with --once. In seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    wait: u32,

    /// The requested lifetime of certificates, at least 600 [default: what the signer gives]. In seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i32).range(600..))]
    expiration_seconds: Option<i32>,
}

/// Runs the command.
pub(super) fn run(args: &ServeCertArgs) -> Result<ExitCode, Failure> {
    let (signer, _) = signers::normalized(&args.signer);
    if !matches!(signers::read(&signer), Some((Purpose::Serving, _))) {
        return Err(Failure::input(format_args!(
            "--signer: {signer:?} is not a serving signer of an attestor, such as {}",
            signers::signer(Purpose::Serving, "tpm")
        )));
    }
    let node_name = args.node_name.clone().unwrap_or_else(host_name);
    let settings = Settings {
        bootstrap_kubeconfig: None,
        kubeconfig: None,
        cert_dir: args.cert_dir.clone(),
        node_name: node_name.clone(),
        expiration_seconds: args.expiration_seconds,
        rebootstrap: true,
        serving: Some(ServingSettings { client_kubeconfig: args.client_kubeconfig.clone(), signer }),
    };
    let agent = Agent::new(settings, Arc::new(SystemClock::new()), narrator(node_name)).map_err(failure)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = StopSignals::handle()?;
        let ended = if args.once {
            agent.serve_once(Duration::from_secs(args.wait.into())).await
        } else {
            agent.serve(stop.received()).await
        };
        ended.map_err(failure)
    })?;
    Ok(ExitCode::SUCCESS)
}
