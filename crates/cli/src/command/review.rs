//! `portcullis review`: answers reviews, one JSON object per line, or compares the answers with recorded ones.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::answer::{AccessAndAdmission, Answering, Covers, KubeletAttributes, Parsing, RequestInfos, Rules};
use crate::engine_flags::{EngineFlags, load_from};
use crate::failure::Failure;
use crate::lines::Lines;
use crate::store_flags::EtcdSourceFlags;

/// Answer SubjectAccessReviews and AdmissionReviews over a snapshot of a cluster
///
/// The snapshot is that of files (--state), or of etcd at one revision (--etcd-servers), which is only read.
///
/// Reads one JSON object per line, of any of these kinds, and writes it with its answer, one per line.
/// SubjectAccessReviews and LocalSubjectAccessReviews (authorization.k8s.io/v1 or v1beta1) are answered only by the
/// given modes: without the system:masters check of a running server. AdmissionReviews (admission.k8s.io/v1 or v1beta1) are
/// answered by NodeRestriction. Nothing is answered unless every line is valid.
///
/// Exit codes: 0 answered, or no differences; 1 differences; 2 bad flags or input; 3 etcd cannot be read, or the output cannot be
/// written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ReviewArgs {
    /// Read lines from this file instead of standard input
    #[arg(long, value_name = "FILE")]
    reviews: Option<PathBuf>,

    /// Compare with the recorded answer in each line: print every difference, and finally their number
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    engine: EngineFlags,

    #[command(flatten)]
    source: EtcdSourceFlags,

    /// Add the default RBAC policy of Kubernetes to the state; objects of the same name in the state take precedence
    #[arg(long, help_heading = "State and authorizers")]
    default_policy: bool,

    /// Lines contain a user, groups and a namespace (`query`); answer with the rules of that user (`status`)
    #[arg(long, group = "form", help_heading = "Other questions")]
    rules: bool,

    /// Lines contain two lists of RBAC rules; answer whether `owner` `covers` `servant`, and what is left `uncovered`.
    /// Needs no state
    #[arg(long, group = "form", help_heading = "Other questions")]
    covers: bool,

    /// Lines contain a `method` and a `url`; answer with the request info of the API server (`info`, or `error`). Needs
    /// no state
    #[arg(long, group = "form", help_heading = "Other questions")]
    request_info: bool,

    /// Lines contain a `method` and a `url` of a kubelet; answer with the `attributes` to authorize, in order. Needs no
    /// state
    #[arg(long, group = "form", help_heading = "Other questions")]
    kubelet_attributes: bool,

    /// The node of the kubelet for --kubelet-attributes
    #[arg(long, value_name = "NAME", default_value = "node-1", help_heading = "Other questions")]
    node_name: String,
}

const EXAMPLES: &str = "\
Examples:
  kubectl get pods,pv,volumeattachments,resourceslices,clusterroles,clusterrolebindings,roles,rolebindings \\
      -A -o json > cluster.json
  portcullis review --state cluster.json < reviews.jsonl
  portcullis review --state cluster.json --reviews answered.jsonl --check
  portcullis review --etcd-servers http://127.0.0.1:2379 < reviews.jsonl
  echo '{\"method\":\"GET\",\"url\":\"/api/v1/pods?watch=1\"}' | portcullis review --request-info";

/// Runs the command.
///
/// # Errors
/// Flags, objects or lines are invalid; nothing was written to standard output.
pub fn run(args: &ReviewArgs) -> Result<ExitCode, Failure> {
    // The flags first, so that an error in them is reported before a long input is read.
    let mut config = args.engine.config()?;
    if args.reviews.is_none() && std::io::stdin().is_terminal() {
        eprintln!("reading lines from standard input; end with Ctrl-D, or name a file with --reviews");
    }
    let lines = Lines::read(args.reviews.as_deref())?;
    if args.covers {
        return all(args, &lines, &Covers);
    }
    if args.request_info {
        return all(args, &lines, &RequestInfos);
    }
    if args.kubelet_attributes {
        let node_name = args.node_name.clone();
        return all(args, &lines, &KubeletAttributes { node_name, gates: config.gates });
    }
    config.default_policy = args.default_policy;
    config.admission = !args.rules;
    let engine = load_from(config, &args.engine.state, &args.source, false)?;
    if args.rules {
        all(args, &lines, &Rules { engine })
    } else {
        all(args, &lines, &AccessAndAdmission { engine })
    }
}

/// Answers or checks every line, after parsing all of them.
fn all<A: Answering>(args: &ReviewArgs, lines: &Lines, answering: &A) -> Result<ExitCode, Failure> {
    let parsing = if args.check { Parsing::WithAnswer } else { Parsing::Question };
    for (number, line) in lines.iter() {
        answering.parse(line, parsing).map_err(|reason| lines.fault(number, reason))?;
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let (mut checked, mut differ) = (0_u64, 0_u64);
    for (number, line) in lines.iter() {
        let question = answering.parse(line, parsing).map_err(|reason| lines.fault(number, reason))?;
        if args.check {
            checked += 1;
            if let Some(difference) = answering.difference(&question) {
                differ += 1;
                writeln!(out, "line {number}: {difference}: {line}")?;
            }
        } else {
            writeln!(out, "{}", answering.answer(&question))?;
        }
    }
    if args.check {
        writeln!(out, "{checked} checked, {differ} differ")?;
    }
    out.flush()?;
    Ok(if differ == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
