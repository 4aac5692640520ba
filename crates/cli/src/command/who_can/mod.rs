//! `portcullis who-can`: names everybody who can make a request, and by what (AU-3).

mod print;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use portcullis_policy::User;
use portcullis_policy::audit::Incomplete;
use portcullis_policy::audit::who_can::{self, Inventory, Scope, WhoCan};
use portcullis_policy::engine::{Builder, EngineConfig};

use self::print::{Part, Report};
use crate::cluster_source::{ClusterFlags, ClusterSource, not_given};
use crate::engine_flags::EngineFlags;
use crate::failure::Failure;
use crate::question::{Question, QuestionFlags};
use crate::store_flags::EtcdSourceFlags;

/// List everybody who can do something: users, groups, service accounts and nodes, and by what
///
/// Each subject is asked alone, as a binding or a policy file names it: members of a listed group can too. Group system:masters is
/// always listed. Those who can for some names only are listed apart, and so are those who will be able to when the aggregation
/// controller has added rules to a role.
///
/// The objects are those of files (--state), of etcd at one revision (--etcd-servers), or else those of the cluster of the
/// kubeconfig. They are only read. With mode Webhook the answer is incomplete, because a webhook cannot be asked whom it allows.
///
/// The arguments are those of `kubectl auth can-i`: VERB TYPE, VERB TYPE/NAME, VERB TYPE NAME, or VERB /PATH. TYPE is
/// plural, singular or short (pods, pod, po) and may include its group (deployments.apps, deployments.v1.apps).
///
/// Exit codes: 0 answered; 1 a part of the cluster was refused or could not be read; 2 bad flags or input; 3 etcd or the
/// cluster cannot be reached, or the output cannot be written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct WhoCanArgs {
    #[command(flatten)]
    question: QuestionFlags,

    /// Answer for every namespace of the state
    #[arg(long, conflicts_with_all = ["namespace", "all_namespaces"])]
    each_namespace: bool,

    /// Add the service accounts of the state that can through a group
    #[arg(long)]
    expand: bool,

    /// Exit with 0 although a part of the cluster was refused or could not be read
    #[arg(long)]
    allow_incomplete: bool,

    /// The output format: a table; a wide one, with bindings, roles and rules, and paths of nodes; everything as JSON or YAML; or
    /// the names of those who can
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Output,

    #[command(flatten)]
    engine: EngineFlags,

    #[command(flatten)]
    cluster: ClusterFlags,

    #[command(flatten)]
    source: EtcdSourceFlags,

    /// Add the default RBAC policy of Kubernetes to the state; objects of the same name in the state take precedence
    #[arg(long, help_heading = "State and authorizers")]
    default_policy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

const EXAMPLES: &str = "\
Examples:
  portcullis who-can get secrets/db -n shop
  portcullis who-can create pods --subresource exec -n shop --state cluster.json -o wide
  portcullis who-can delete nodes --state cluster.json -o name
  portcullis who-can list secrets --each-namespace --state cluster.json
  portcullis who-can get /metrics --etcd-servers http://127.0.0.1:2379";

/// Runs the command.
///
/// # Errors
/// Flags or objects are invalid, the question makes no sense, or the objects cannot be read.
pub fn run(args: &WhoCanArgs) -> Result<ExitCode, Failure> {
    let source = source(args);
    let question = args.question.read(&source.namespace(), |written| source.find_type(written))?;
    let each_namespace = args.each_namespace && question.is_namespaced();
    if args.each_namespace && !each_namespace {
        eprintln!("warning: the question is about no namespace: --each-namespace is ignored");
    }
    let report = report(args, &question, Scope { expand: args.expand, each_namespace })?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match args.output {
        Output::Table => print::table(&mut out, &report, false)?,
        Output::Wide => print::table(&mut out, &report, true)?,
        Output::Json => print::json(&mut out, &report)?,
        Output::Yaml => print::yaml(&mut out, &report)?,
        Output::Name => print::names(&mut out, &report)?,
    }
    out.flush()?;
    // AU-22
    let is_partial = report.incomplete.iter().any(|missing| missing.why.is_failure());
    Ok(ExitCode::from(u8::from(is_partial && !args.allow_incomplete)))
}

fn source(args: &WhoCanArgs) -> ClusterSource<'_> {
    ClusterSource { state: &args.engine.state, etcd: &args.source, cluster: &args.cluster }
}

/// Reads the objects, and answers.
fn report(args: &WhoCanArgs, question: &Question, scope: Scope) -> Result<Report, Failure> {
    // A webhook cannot be listed, which the answer says (AU-93).
    let config = args.engine.config_of(args.engine.modes()?, true)?;
    let config = EngineConfig { default_policy: args.default_policy, ..config };
    let nobody = User::default();
    let kinds = who_can::kinds(&config, &question.attributes(&nobody), scope);
    let gates = config.gates;
    let mut builder = Builder::new(config).map_err(Failure::input)?;
    let mut inventory = Inventory::default();
    let reading = source(args).read(&kinds, &[who_can::RULE], &mut |object| {
        inventory.take(&object);
        builder.take(object).map_err(|error| error.to_string())
    })?;
    let mut incomplete: BTreeSet<Incomplete> = reading.incomplete.into_iter().collect();
    if reading.is_of_files {
        let missing = inventory.missing(&kinds).into_iter().filter(|kind| !reading.listed.contains(kind));
        incomplete.extend(missing.map(|kind| not_given(kind, who_can::RULE)));
    }
    let engine = builder.finish();
    let who_can = WhoCan::new(engine.chain(), gates, &inventory);
    let questions: Vec<(Option<String>, Question)> = match scope.each_namespace {
        true => {
            let about = |namespace: &str| (Some(namespace.to_owned()), question.within(namespace));
            inventory.namespaces().map(about).collect()
        }
        false => vec![(None, question.clone())],
    };
    let mut report = Report { revision: reading.revision, ..Report::default() };
    for (namespace, question) in questions {
        let answer = who_can.ask(&question.attributes(&nobody), scope.expand);
        report.parts.push(Part { namespace, lists: answer.lists });
        report.notes.extend(answer.notes);
        incomplete.extend(answer.incomplete);
    }
    report.incomplete = incomplete.into_iter().collect();
    Ok(report)
}
