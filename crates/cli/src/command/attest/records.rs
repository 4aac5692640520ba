//! `portcullis attest records | revoke | reset`: the identity records (AT-153).

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use portcullis_attestation::record::State;
use portcullis_attestation::tpm::{MODEL, PCRS};
use portcullis_client::attest::{RecordError, Records, Versioned};
use portcullis_client::{Connection, Resource};

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::program_name;
use crate::table::columns;

/// List the identity records of machines
#[derive(Args, Debug)]
pub(super) struct RecordsArgs {
    #[command(flatten)]
    server: ServerArgs,

    /// The output format
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    output: Output,
}

/// Change whether the identity of a machine is accepted
///
/// revoke: no more certificates, also no renewals, until it is reset. Certificates that were issued stay valid until
/// they expire. reset: the next device that proves the identity is the one of the machine from then on, such as after a
/// repair. Both are recorded with the reason.
#[derive(Args, Debug)]
pub(super) struct StateArgs {
    /// The name of the node
    #[arg(value_name = "NODE")]
    node_name: String,

    /// Why, for those who read the record later
    #[arg(long, value_name = "TEXT")]
    reason: String,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Args, Debug)]
struct ServerArgs {
    /// The kubeconfig of the API server with the identity records [default: as kubectl]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// The namespace of the identity records of an inventory
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    namespace: String,

    /// The workload cluster, where the controller has several [default: all]
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Table,
    /// For people, with the TPM and the result of the PCR policy.
    Wide,
    /// A JSON array.
    Json,
}

impl ServerArgs {
    async fn connect(&self) -> Result<Connection, Failure> {
        let connection = Connection::infer(self.kubeconfig.as_deref(), self.context.as_deref()).await;
        connection.map_err(Failure::input)
    }

    fn records(&self, connection: Connection) -> Records {
        Records::new(connection, self.namespace.clone()).of_cluster(self.cluster.clone())
    }
}

/// Lists the records.
pub(super) async fn list(args: &RecordsArgs) -> Result<ExitCode, Failure> {
    let mut records = args.server.records(args.server.connect().await?).list().await.map_err(failure)?;
    records.sort_by(|one, other| one.record.node_name.cmp(&other.record.node_name));
    let mut out = std::io::stdout().lock();
    if args.output == Output::Json {
        let records: Vec<_> = records.iter().map(|versioned| &versioned.record).collect();
        let text = serde_json::to_string_pretty(&records).map_err(Failure::unreachable)?;
        writeln!(out, "{text}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let has_clusters = records.iter().any(|versioned| versioned.cluster.is_some());
    let mut heads =
        ["NODE", "ATTESTOR", "KEY CLASS", "STATE", "LAST SEEN", "DEVICE"].map(str::to_owned).to_vec();
    if args.output == Output::Wide {
        heads.extend(["TPM", "PCRS"].map(str::to_owned));
    }
    if has_clusters {
        heads.push("CLUSTER".to_owned());
    }
    let row = |Versioned { record, cluster, .. }: &Versioned| {
        let mut row = vec![
            record.node_name.clone(),
            record.provider.clone(),
            record.key_class.to_string(),
            format!("{:?}", record.state),
            record.last_seen.to_string(),
            record.device.to_string(),
        ];
        if args.output == Output::Wide {
            let attribute = |name: &str| record.attributes.get(name).cloned().unwrap_or_default();
            row.extend([MODEL, PCRS].map(attribute));
        }
        if has_clusters {
            row.push(cluster.clone().unwrap_or_default());
        }
        row
    };
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(records.iter().map(row)).collect();
    columns(&mut out, &rows)?;
    Ok(ExitCode::SUCCESS)
}

/// Revokes an identity.
pub(super) async fn revoke(args: &StateArgs) -> Result<ExitCode, Failure> {
    change(args, State::Revoked, "revoked").await
}

/// Resets an identity.
pub(super) async fn reset(args: &StateArgs) -> Result<ExitCode, Failure> {
    change(args, State::Reset, "reset").await
}

async fn change(args: &StateArgs, state: State, done: &str) -> Result<ExitCode, Failure> {
    let connection = args.server.connect().await?;
    let user = own_name(&connection).await?;
    let records = args.server.records(connection);
    let all = records.list().await.map_err(failure)?;
    let mut of_node = all.iter().filter(|versioned| versioned.record.node_name == args.node_name);
    let Some(found) = of_node.next() else {
        return Err(Failure::refused(format_args!(
            "no identity record of node {}: see {} attest records",
            args.node_name,
            program_name::of_this_process()
        )));
    };
    if of_node.next().is_some() {
        return Err(Failure::refused(format_args!(
            "several identity records of node {}: name one with --cluster, or delete those of machines that are gone",
            args.node_name
        )));
    }
    let mut record = found.record.clone();
    record.state = state;
    record.state_note = Some(format!("{user}: {}", args.reason));
    records.replace(found, &record).await.map_err(failure)?;
    if state == State::Reset {
        records.release(record.device).await.map_err(failure)?;
    }
    writeln!(std::io::stdout().lock(), "{done} the identity of node {} ({})", args.node_name, record.device)?;
    Ok(ExitCode::SUCCESS)
}

/// Who runs the command, as the API server knows them (AT-153).
async fn own_name(connection: &Connection) -> Result<String, Failure> {
    let reviews = Resource::new("authentication.k8s.io", "v1", "selfsubjectreviews");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer: Value = connection.create(&reviews, &review).await.map_err(|e| failure(e.into()))?;
    let name = answer.pointer("/status/userInfo/username").and_then(Value::as_str);
    Ok(name.unwrap_or_default().to_owned())
}

fn failure(error: RecordError) -> Failure {
    match &error {
        RecordError::Call(call) if call.code().is_some_and(|code| code < 500) => Failure::refused(error),
        RecordError::Call(_) => Failure::unreachable(error),
        RecordError::Malformed { .. } => Failure::input(error),
    }
}
