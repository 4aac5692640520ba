//! `portcullis diff`: who may do what in one of two states, and not in the other, and what nodes reach (AU-5).

mod print;

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use portcullis_policy::audit::diff::{self, Report, Wanted};
use portcullis_policy::audit::reach::Asked;
use portcullis_policy::audit::state::State;
use portcullis_policy::chain::Mode;
use portcullis_policy::engine::EngineConfig;

use crate::engine_flags::EngineFlags;
use crate::failure::Failure;
use crate::{audit_source, time};

/// Show what a change would give to whom, and take from whom, before it is applied
///
/// Compares an old state with a new one: every request that one side alone allows, to everybody who is named on either side, and
/// by what. Group system:authenticated stands for every user that is named nowhere, and `node/<any>` for every node to which
/// nothing belongs. Group system:masters is never listed: it is always allowed everything. What belongs to nodes is compared
/// too: what each node reaches by itself, and how much in the end.
///
/// The comparison is complete: requests are compared by classes of the words that rules of either side use. `<other>` is a word
/// that no rule uses, so that it stands for all such words. With JSON each class is a row of its own; the tables say the
/// same in short, with * for all words.
///
/// Both states are what `kubectl get -o json|yaml` prints. What they lack is named on the standard error, and in JSON as
/// `incomplete`.
///
/// Exit codes: 0 no difference; 1 some, or not everything could be compared; 2 bad flags or input; 3 the output cannot be
/// written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DiffArgs {
    #[command(flatten)]
    engine: EngineFlags,

    /// The new state, as --state names the old one. Repeatable [default: the old state]
    #[arg(long, value_name = "FILE|DIR", help_heading = "State and authorizers")]
    to: Vec<PathBuf>,

    /// The ordered authorization modes of the new side [default: those of the old side]
    #[arg(long, value_name = "MODES", value_delimiter = ',', help_heading = "State and authorizers")]
    to_authorization_mode: Option<Vec<String>>,

    /// The policies of mode ABAC of the new side [default: those of the old side]
    #[arg(long, value_name = "FILE", help_heading = "State and authorizers")]
    to_authorization_policy_file: Option<PathBuf>,

    /// Add the default RBAC policy of Kubernetes to both states; objects of the same name in a state take precedence
    #[arg(long, help_heading = "State and authorizers")]
    default_policy: bool,

    /// The differences that make the exit code 1
    #[arg(long, value_name = "WHAT", default_value = "any")]
    fail_on: FailOn,

    /// How many rows of gains, and how many of losses, are listed at most
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    rows: usize,

    /// The time at which bootstrap tokens must be valid, as 2026-01-31T12:00:00Z or 2026-01-31 [default: now]
    #[arg(long, value_name = "TIME")]
    now: Option<String>,

    /// The output format: a table; a wide one, with bindings, roles and rules; everything as JSON or YAML; or the names of those
    /// for whom something differs
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Gained,
    Lost,
    Any,
    None,
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
  portcullis diff --state cluster.json --to changed.json
  portcullis diff --state cluster.json --to changed.json -o wide --fail-on gained
  portcullis diff --state cluster.json --authorization-mode AlwaysAllow --to-authorization-mode Node,RBAC -o json";

/// Runs the command.
///
/// # Errors
/// Flags or objects are invalid; nothing was written to standard output.
pub fn run(args: &DiffArgs) -> Result<ExitCode, Failure> {
    let now = args.now.as_deref().map_or_else(|| Ok(Timestamp::now()), time::parse)?;
    let (old, new) = args.sides()?;
    let wanted = Wanted { most: args.rows, rows: matches!(args.output, Output::Json | Output::Yaml) };
    let is_expired = |expiration: &str| time::parse(expiration).is_ok_and(|end| end <= now);
    let report = diff::compare(&old, &new, wanted, &Asked { is_expired: &is_expired });
    let report = report.map_err(Failure::input)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    match args.output {
        Output::Table => print::table(&mut out, &report, false)?,
        Output::Wide => print::table(&mut out, &report, true)?,
        Output::Json => print::json(&mut out, &report)?,
        Output::Yaml => print::yaml(&mut out, &report)?,
        Output::Name => print::names(&mut out, &report)?,
    }
    out.flush()?;
    audit_source::tell_missing(&report.incomplete);
    Ok(ExitCode::from(u8::from(fails(&report, args.fail_on))))
}

/// Whether there is a difference of this sort. What could not be compared counts as one (AU-22).
fn fails(report: &Report, on: FailOn) -> bool {
    match on {
        FailOn::Gained => report.is_cut || report.is_gain(),
        FailOn::Lost => report.is_cut || report.is_loss(),
        FailOn::Any => report.is_cut || report.is_gain() || report.is_loss(),
        FailOn::None => false,
    }
}

impl DiffArgs {
    /// Reads both sides.
    fn sides(&self) -> Result<(State, State), Failure> {
        if self.engine.state.is_empty() {
            return Err(Failure::input(
                "--state is missing: name the files or directories with the objects of the old side, as kubectl get -A -o json \
                 prints them",
            ));
        }
        let has_other_modes =
            self.to_authorization_mode.is_some() || self.to_authorization_policy_file.is_some();
        if self.to.is_empty() && !has_other_modes {
            return Err(Failure::input(
                "there is nothing to compare with: name the new state with --to, or its modes with --to-authorization-mode",
            ));
        }
        let of_new = |failure: Failure| Failure::input(format_args!("the new side: {failure}"));
        let new = self.new_side().map_err(of_new)?;
        let (old_config, new_config) = (self.config(&self.engine)?, self.config(&new).map_err(of_new)?);
        let old = audit_source::load(old_config, &self.engine.state)?;
        let new = audit_source::load(new_config, &new.state).map_err(of_new)?;
        Ok((old, new))
    }

    fn config(&self, flags: &EngineFlags) -> Result<EngineConfig, Failure> {
        Ok(EngineConfig { default_policy: self.default_policy, ..flags.config()? })
    }

    /// The flags of the new side: those of the old one where it has none of its own.
    fn new_side(&self) -> Result<EngineFlags, Failure> {
        let old = &self.engine;
        let mut flags = EngineFlags {
            state: if self.to.is_empty() { old.state.clone() } else { self.to.clone() },
            authorization_mode: self.to_authorization_mode.clone().or_else(|| old.authorization_mode.clone()),
            ..old.clone()
        };
        let has_abac = flags.modes()?.contains(&Mode::Abac);
        let of_old = flags.authorization_policy_file.take().filter(|_| has_abac);
        flags.authorization_policy_file = self.to_authorization_policy_file.clone().or(of_old);
        Ok(flags)
    }
}
