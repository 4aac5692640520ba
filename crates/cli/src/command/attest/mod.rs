//! `portcullis attest`: the attestation controller, and commands for identity records and evidence.

mod clusters;
mod enroll;
mod records;
mod run;
mod verify;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Give certificates to nodes that prove their machine
///
/// Watches the CertificateSigningRequests for the signers cluster.x-k8s.io/kube-apiserver-client-kubelet-*, challenges
/// the nodes, verifies their evidence, and approves and signs their certificates with its own authority. The API server
/// must trust this authority (--client-ca-file). Also approves or signs the serving certificates of attested nodes. See
/// docs/attestation.md.
///
/// Exit codes: 0 stopped, or done; 1 the evidence is refused, or there is no such record; 2 bad flags or input; 3 the
/// API server cannot be reached.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct AttestArgs {
    #[command(subcommand)]
    command: Option<AttestCommand>,

    #[command(flatten)]
    run: run::RunArgs,
}

#[derive(Debug, Subcommand)]
enum AttestCommand {
    Enroll(enroll::EnrollArgs),
    Records(records::RecordsArgs),
    Revoke(records::StateArgs),
    Reset(records::StateArgs),
    Verify(Box<verify::VerifyArgs>),
}

const EXAMPLES: &str = "\
Examples:
  portcullis attest --config attest.yaml --cluster-signing-cert-file nodes-ca.crt --cluster-signing-key-file nodes-ca.key
  portcullis attest enroll node-1 --provider-id metal://rack-1/node-1 --inventory inventory.yaml --endorsement-key sha256:...
  portcullis attest records
  portcullis attest revoke node-1 --reason \"stolen\"
  portcullis attest verify --config attest.yaml --csr csr.yaml";

/// Runs the command.
///
/// # Errors
/// Flags or files are invalid, evidence is refused, or the API server cannot be reached.
pub fn run(args: &AttestArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        Some(AttestCommand::Enroll(args)) => enroll::run(args),
        Some(AttestCommand::Verify(args)) => verify::run(args),
        Some(AttestCommand::Records(args)) => runtime()?.block_on(records::list(args)),
        Some(AttestCommand::Revoke(args)) => runtime()?.block_on(records::revoke(args)),
        Some(AttestCommand::Reset(args)) => runtime()?.block_on(records::reset(args)),
        None => {
            args.run.log();
            runtime()?.block_on(run::run(&args.run))
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Runtime::new()
        .map_err(|error| Failure::unreachable(format_args!("cannot start the runtime: {error}")))
}
