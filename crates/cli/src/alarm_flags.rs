//! The flag of the alarm on secrets, for the programs that nodes ask.

use clap::Args;
use portcullis_server::authz::secret_alarm::MOST_SECRETS;

/// See the module.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AlarmFlags {
    /// Raise an alarm when a node asks for more distinct secrets than this within a minute: a metric, a line in the log, and in
    /// `serve` an event about the node. Nothing is refused [default: no alarm]
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    pub(crate) node_secret_alarm: Option<usize>,
}

fn number(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST_SECRETS).contains(number));
    number.ok_or_else(|| format!("write a number from 1 to {MOST_SECRETS}"))
}
