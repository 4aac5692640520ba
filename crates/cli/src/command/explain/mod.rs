//! `portcullis explain`: by what a user may make a request, every way, or what comes nearest (AU-4, AU-100 to AU-102).

mod print;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use portcullis_policy::User;
use portcullis_policy::audit::Incomplete;
use portcullis_policy::audit::explain::{self, Explain, HiddenPaths, Limits, Verdict};
use portcullis_policy::audit::who_can::Inventory;
use portcullis_policy::engine::{Builder, EngineConfig};

use self::print::Report;
use crate::cluster_source::{ClusterFlags, ClusterSource, not_given};
use crate::engine_flags::EngineFlags;
use crate::failure::Failure;
use crate::question::{Question, QuestionFlags};
use crate::store_flags::EtcdSourceFlags;
use crate::user_flags::UserFlags;

/// Explain why a user may do something, by every path and rule, or what comes nearest to that
///
/// If it is allowed, every way is listed: each rule of each role that is bound to the user or to a group of the user, each path from
/// a node to the object, and each line of an ABAC policy file. FIRST marks the way that is taken first, where that is certain: of
/// several bindings it is not.
///
/// If it is not, the smallest rule is named that would be enough, and what comes nearest: a rule of the user with one other factor,
/// then a rule that others have, a role that nobody is bound to, a binding without its role, and what a node lacks. Typing errors
/// are called that. What is listed is for whoever holds the state; no server says it to a user who is refused.
///
/// The objects are those of files (--state), of etcd at one revision (--etcd-servers), or else those of the cluster of the
/// kubeconfig. They are only read. The arguments and the user are those of `portcullis can-i`.
///
/// Exit codes: 0 yes; 1 no, or not known; 2 bad flags or input; 3 etcd or the cluster cannot be reached, or the output
/// cannot be written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    #[command(flatten)]
    question: QuestionFlags,

    #[command(flatten)]
    user: UserFlags,

    /// How many ways are listed of each mode, the shortest paths first
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().paths)]
    paths: usize,

    /// How many near misses are listed
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().misses)]
    misses: usize,

    /// The output format: tables; wide ones, with the text of rules; or everything as JSON or YAML
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
}

const EXAMPLES: &str = "\
Examples:
  portcullis explain get secrets/db -n shop --as jane
  portcullis explain get secrets/db -n shop --as system:node:n1 --as-group system:nodes --state cluster.json
  portcullis explain create deploy -n shop --as system:serviceaccount:shop:web --state cluster.json -o wide
  portcullis explain get /metrics --as jane --misses 20 --etcd-servers http://127.0.0.1:2379 -o json";

/// Runs the command. Returns the exit code of the answer. DIVERGES from AU-22, by which an input that cannot be read makes it 1.
///
/// # Errors
/// Flags or objects are invalid, the question makes no sense, or the objects cannot be read.
pub fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let source = source(args);
    let question = args.question.read(&source.namespace(), |written| source.find_type(written))?;
    let user = args.user.user(false)?;
    let report = report(args, &question, &user)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match args.output {
        Output::Table => print::table(&mut out, &report, false)?,
        Output::Wide => print::table(&mut out, &report, true)?,
        Output::Json => print::json(&mut out, &report)?,
        Output::Yaml => print::yaml(&mut out, &report)?,
    }
    out.flush()?;
    Ok(ExitCode::from(u8::from(report.answer.answer != Verdict::Yes)))
}

fn source(args: &ExplainArgs) -> ClusterSource<'_> {
    ClusterSource { state: &args.engine.state, etcd: &args.source, cluster: &args.cluster }
}

/// Reads the objects, and answers.
fn report(args: &ExplainArgs, question: &Question, user: &User) -> Result<Report, Failure> {
    let attributes = question.attributes(user);
    // What a webhook says is not known, which the answer says (AU-93).
    let config = args.engine.config_of(args.engine.modes()?, true)?;
    let config = EngineConfig { default_policy: args.default_policy, ..config };
    let kinds = explain::kinds(&config, &attributes);
    let deciding = explain::deciding_kinds(&config, &attributes);
    let gates = config.gates;
    let mut builder = Builder::new(config).map_err(Failure::input)?;
    let (mut inventory, mut hidden) = (Inventory::default(), HiddenPaths::default());
    let reading = source(args).read(&kinds, &[explain::RULE], &mut |object| {
        inventory.take(&object);
        let hides = hidden.take(&object);
        builder.take(object).and(hides).map_err(|error| error.to_string())
    })?;
    hidden.finish();
    let engine = builder.finish();
    let limits = Limits { paths: args.paths, misses: args.misses };
    let mut answer = Explain::new(engine.chain(), gates, &inventory, &hidden).ask(&attributes, limits);
    let mut incomplete: Vec<Incomplete> = reading.incomplete;
    if reading.is_of_files {
        let missing = inventory.missing(&deciding).into_iter().filter(|kind| !reading.listed.contains(kind));
        incomplete.extend(missing.map(|kind| not_given(kind, explain::RULE)));
    }
    answer.lacks(incomplete);
    Ok(Report { answer, revision: reading.revision })
}
