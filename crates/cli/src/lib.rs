//! The command line of Portcullis: one file per command under `command`.

mod alarm_flags;
pub mod answer;
mod approver_config;
pub mod approver_flags;
mod attest_config;
pub mod audit_flags;
mod audit_log;
pub mod audit_source;
pub mod authentication_flags;
pub mod authorization;
mod backups;
pub mod bench;
pub mod bootstrap_flags;
pub mod cluster_source;
mod collection;
pub mod command;
pub mod controller_flags;
pub mod engine_flags;
pub mod etcd_flags;
pub mod failure;
pub mod filter_flags;
mod health;
pub mod kube_apiserver_flags;
mod kubeconfig;
pub mod kubelet_flags;
pub mod lease_flags;
pub mod limit_flags;
pub mod lines;
mod logging;
mod memory;
mod open_files;
mod output;
mod progress;
pub mod question;
pub mod resource_type;
mod serving;
mod signals;
mod storage_flags;
pub mod store_flags;
mod table;
mod terminal;
mod time;
pub mod user_flags;
mod yaml;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// The boundary between Kubernetes nodes and the control plane
#[derive(Debug, Parser)]
#[command(name = "portcullis", version, max_term_width = 120)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Approve(Box<command::approve::ApproveArgs>),
    Attest(Box<command::attest::AttestArgs>),
    Audit(Box<command::audit::AuditArgs>),
    Bench(Box<command::bench::BenchArgs>),
    Bootstrap(Box<command::bootstrap::BootstrapArgs>),
    CanI(Box<command::can_i::CanIArgs>),
    Collect(Box<command::collect::CollectArgs>),
    Completions(command::completions::CompletionsArgs),
    Credential(Box<command::credential::CredentialArgs>),
    Diff(Box<command::diff::DiffArgs>),
    Explain(Box<command::explain::ExplainArgs>),
    Guard(Box<command::guard::GuardArgs>),
    Preflight(Box<command::preflight::PreflightArgs>),
    Reach(Box<command::reach::ReachArgs>),
    Review(Box<command::review::ReviewArgs>),
    Serve(Box<command::serve::ServeArgs>),
    Store(Box<command::store::StoreArgs>),
    Webhook(Box<command::webhook::WebhookArgs>),
    WhoCan(Box<command::who_can::WhoCanArgs>),
}

/// Runs the command in the arguments and returns the exit code: 0 yes or success, 1 no or findings, 2 an error in flags
/// or input, 3 something required cannot be reached.
pub fn run(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are not errors; if printing fails, nobody is reading.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    let done = match &cli.command {
        Command::Approve(args) => command::approve::run(args),
        Command::Attest(args) => command::attest::run(args),
        Command::Audit(args) => command::audit::run(args),
        Command::Bench(args) => command::bench::run(args),
        Command::Bootstrap(args) => command::bootstrap::run(args),
        Command::CanI(args) => command::can_i::run(args),
        Command::Collect(args) => command::collect::run(args),
        Command::Completions(args) => command::completions::run(args, &mut Cli::command()),
        Command::Credential(args) => command::credential::run(args),
        Command::Diff(args) => command::diff::run(args),
        Command::Explain(args) => command::explain::run(args),
        Command::Guard(args) => command::guard::run(args),
        Command::Preflight(args) => command::preflight::run(args),
        Command::Reach(args) => command::reach::run(args),
        Command::Review(args) => command::review::run(args),
        Command::Serve(args) => command::serve::run(args),
        Command::Store(args) => command::store::run(args),
        Command::Webhook(args) => command::webhook::run(args),
        Command::WhoCan(args) => command::who_can::run(args),
    };
    done.unwrap_or_else(|failure| failure.report())
}
