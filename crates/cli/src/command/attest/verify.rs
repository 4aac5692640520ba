//! `portcullis attest verify`: all checks of one request, without a server (AT-192).

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use portcullis_apimachinery::time::Instant;
use portcullis_attestation::judge::{Decision, Subject};
use portcullis_attestation::record::Record;
use portcullis_attestation::time::system_time;
use portcullis_attestation::{Check, CheckResult, Report};
use portcullis_client::attest::ChallengeKeys;
use portcullis_client::attestation::{Parsed, Stored};
use portcullis_pki::random_bytes;

use crate::attest_config::read_settings;
use crate::failure::Failure;
use crate::table::columns;

/// Print all checks of a certificate request with evidence, without a server
///
/// Exit codes: 0 the node would get a challenge or a certificate; 1 it is refused; 2 bad flags or input.
#[derive(Args, Debug)]
pub(super) struct VerifyArgs {
    /// The configuration, as for the controller. Only machines of an inventory are known
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// The CertificateSigningRequest, in the output format of kubectl get -o yaml or -o json
    #[arg(long, value_name = "FILE")]
    csr: PathBuf,

    /// The earlier request, with the challenge that this one answers. Repeatable
    #[arg(long, value_name = "FILE")]
    earlier: Vec<PathBuf>,

    /// The Secret portcullis-attestation-keys; without it no answer to a challenge verifies
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,

    /// The identity record of the machine, one element of portcullis attest records -o json [default: first time]
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// The time of the decision, such as 2026-01-02T03:04:05Z [default: now]
    #[arg(long, value_name = "TIME")]
    now: Option<String>,
}

/// Prints the checks.
pub(super) fn run(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let settings = read_settings(&args.config).map_err(Failure::input)?;
    let parsed = Parsed::new(document::<Stored>(&args.csr)?);
    let earlier = args.earlier.iter().map(|path| Ok(Parsed::new(document::<Stored>(path)?).facts()));
    let earlier: Vec<_> = earlier.collect::<Result<Vec<_>, Failure>>()?.into_iter().flatten().collect();
    let record: Option<Record> = args.record.as_deref().map(document).transpose()?;
    let keys = match &args.keys {
        Some(path) => {
            let secret: ChallengeKeys = document(path)?;
            let wrong = |why| Failure::input(format_args!("--keys {}: {why}", path.display()));
            secret.keys().map_err(wrong)?
        }
        None => ChallengeKeys::unknown().map_err(Failure::unreachable)?,
    };
    let now = match &args.now {
        Some(text) => system_time(Instant::parse(text).map_err(Failure::input)?),
        None => SystemTime::now(),
    };
    let machine = parsed.node_name().and_then(|name| settings.inventory.of_node(name));
    let subject = Subject {
        request: parsed.client_request(),
        uid: &parsed.stored.metadata.uid,
        created: parsed.created(),
        machine,
        record: record.as_ref(),
        earlier: &earlier,
    };
    let nonce = random_bytes().map_err(Failure::unreachable)?;
    print(&settings.rules.judge(&subject, &keys, nonce, now))
}

fn print(report: &Report<Decision>) -> Result<ExitCode, Failure> {
    let row = |Check { rule, what, result }: &Check| {
        let (mark, detail) = match result {
            CheckResult::Passed(detail) => ("pass", detail.clone()),
            CheckResult::Failed(refusal) => ("FAIL", format!("{}: {}", refusal.reason, refusal.detail)),
            CheckResult::NotEvaluated => ("-", "not evaluated".to_owned()),
            CheckResult::NotRequired => ("-", "not required".to_owned()),
        };
        vec![(*rule).to_owned(), mark.to_owned(), (*what).to_owned(), detail]
    };
    let mut out = std::io::stdout().lock();
    columns(&mut out, &report.checks.iter().map(row).collect::<Vec<_>>())?;
    let (line, code) = match &report.outcome {
        Ok(Decision::Challenge(_)) => ("the node would get a challenge".to_owned(), ExitCode::SUCCESS),
        Ok(Decision::Issue(accepted)) => {
            let class = accepted.verified.key_class;
            (format!("the node would get a certificate (key class {class})"), ExitCode::SUCCESS)
        }
        Err(refusal) => {
            (format!("refused: {} ({}) {}", refusal.reason, refusal.rule, refusal.detail), ExitCode::from(1))
        }
    };
    writeln!(out, "{line}")?;
    Ok(code)
}

/// Reads a document in YAML or JSON.
fn document<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format_args!("cannot read {}: {error}", path.display())))?;
    serde_saphyr::from_str(&text).map_err(|error| Failure::input(format_args!("{}: {error}", path.display())))
}
