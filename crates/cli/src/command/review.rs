//! `portcullis review`: answers reviews, one JSON object a line, or compares with the answers they already hold.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::answer::{AccessAndAdmission, Answering, Covers, KubeletAttributes, Parsing, RequestInfos, Rules};
use crate::engine_flags::{EngineFlags, load};
use crate::failure::Failure;
use crate::lines::Lines;

/// Answer SubjectAccessReviews and AdmissionReviews over a snapshot of a cluster
///
/// Reads one JSON object per line and writes it completed, one per line. Exactly the modes named are asked: without the
/// system:masters step that a running server puts first, and without default roles unless --default-policy says so.
/// AdmissionReviews are answered by NodeRestriction. Nothing is answered unless every line can be read.
///
/// Exit codes: 0 answered, or no difference; 1 differences; 2 bad flags or input.
#[derive(Args, Debug)]
pub struct ReviewArgs {
    #[command(flatten)]
    engine: EngineFlags,

    /// Read reviews from this file instead of standard input
    #[arg(long, value_name = "FILE")]
    reviews: Option<PathBuf>,

    /// Compare with the answer already in each line; print every difference and how many there are
    #[arg(long)]
    check: bool,

    /// Have the default RBAC policy of Kubernetes beside the objects; objects of the same name win
    #[arg(long)]
    default_policy: bool,

    /// Lines hold a user, groups and a namespace (`query`); answer with the rules of that user (`status`)
    #[arg(long, group = "form")]
    rules: bool,

    /// Lines hold two lists of RBAC rules; answer whether `owner` covers `servant`, and what is left `uncovered`
    #[arg(long, group = "form")]
    covers: bool,

    /// Lines hold a `method` and a `url`; answer with what the API server makes of it (`info`, or `error`)
    #[arg(long, group = "form")]
    request_info: bool,

    /// Lines hold a `method` and a `url` of a kubelet; answer with the `attributes` to authorize, in order
    #[arg(long, group = "form")]
    kubelet_attributes: bool,

    /// The node whose kubelet --kubelet-attributes is about
    #[arg(long, value_name = "NAME", default_value = "node-1")]
    node_name: String,
}

/// Runs the command.
///
/// # Errors
/// Flags, objects or lines that cannot be used; nothing has been written to standard output then.
pub fn run(args: &ReviewArgs) -> Result<ExitCode, Failure> {
    // The flags first: a mistake there should not wait for a long input.
    let mut config = args.engine.config()?;
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
    let (engine, _) = load(config, &args.engine.state)?;
    if args.rules {
        all(args, &lines, &Rules { engine })
    } else {
        all(args, &lines, &AccessAndAdmission { engine })
    }
}

/// Answers or checks every line, having read every line first.
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
