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
mod completion;
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
mod program_name;
mod progress;
pub mod question;
#[cfg(test)]
mod reference;
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

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand};

use crate::program_name::{Called, renamed};

/// The boundary between Kubernetes nodes and the control plane
#[derive(Debug, Parser)]
#[command(name = program_name::PROGRAM, version, max_term_width = 120)]
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
    #[command(name = command::complete::NAME)]
    Complete(command::complete::CompleteArgs),
    Completions(command::completions::CompletionsArgs),
    Credential(Box<command::credential::CredentialArgs>),
    Diff(Box<command::diff::DiffArgs>),
    Explain(Box<command::explain::ExplainArgs>),
    Guard(Box<command::guard::GuardArgs>),
    #[command(hide = true)]
    ManualPages(command::manual_pages::ManualPagesArgs),
    Preflight(Box<command::preflight::PreflightArgs>),
    Reach(Box<command::reach::ReachArgs>),
    Review(Box<command::review::ReviewArgs>),
    Serve(Box<command::serve::ServeArgs>),
    Store(Box<command::store::StoreArgs>),
    Version(command::version::VersionArgs),
    Webhook(Box<command::webhook::WebhookArgs>),
    WhoCan(Box<command::who_can::WhoCanArgs>),
}

/// Runs the command in the arguments and returns the exit code: 0 yes or success, 1 no or findings, 2 an error in flags
/// or input, 3 something required cannot be reached.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let called = Called::by(arguments.first().map(OsString::as_os_str));
    if called == Called::PluginCompletion {
        arguments.insert(1, command::complete::NAME.into());
    }
    let cli = match parse(called, arguments) {
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
        Command::Complete(args) => command::complete::run(args, command_line(called)),
        Command::Completions(args) => command::completions::run(args, &mut Cli::command()),
        Command::Credential(args) => command::credential::run(args),
        Command::Diff(args) => command::diff::run(args),
        Command::Explain(args) => command::explain::run(args),
        Command::Guard(args) => command::guard::run(args),
        Command::ManualPages(args) => command::manual_pages::run(args, Cli::command()),
        Command::Preflight(args) => command::preflight::run(args),
        Command::Reach(args) => command::reach::run(args),
        Command::Review(args) => command::review::run(args),
        Command::Serve(args) => command::serve::run(args),
        Command::Store(args) => command::store::run(args),
        Command::Version(args) => command::version::run(args, &Cli::command()),
        Command::Webhook(args) => command::webhook::run(args),
        Command::WhoCan(args) => command::who_can::run(args),
    };
    done.unwrap_or_else(|failure| failure.report())
}

/// The command line, under the name by which the program was called.
fn command_line(called: Called) -> clap::Command {
    match called {
        Called::Program => Cli::command(),
        Called::Plugin | Called::PluginCompletion => renamed(Cli::command(), called.name()),
    }
}

fn parse(called: Called, arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command_line = command_line(called);
    let matches = command_line.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command_line))
}
