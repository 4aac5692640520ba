//! `portcullis store rewrite`: writes stored values in today's form (ET-51).

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::report::{counted, report};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::store_flags::StoreFlags;

/// Rewrite stored values that would be written differently today
///
/// These are values with another encryption key or provider than the first one of --encryption-provider-config, in
/// protobuf, or in an old version. The objects stay as they are.
///
/// In etcd each value is replaced only if nobody has changed it meanwhile, so servers may go on; give them the new
/// configuration first, or they cannot read what is written. If it is interrupted, start it again. The file of a data
/// directory is replaced as a whole, and its server must be stopped: it does the same when it starts.
///
/// Exit codes: 0 all values have today's form; 1 some cannot be read, which are named and left alone (a file is then not
/// rewritten at all); 2 bad flags; 3 the store is in use, or cannot be read or written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct RewriteArgs {
    /// Rewrite all values, also those that have today's form
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    store: StoreFlags,
}

const EXAMPLES: &str = "\
Examples:
  portcullis store rewrite --etcd-servers http://127.0.0.1:2379 --encryption-provider-config encryption.yaml
  portcullis store rewrite --data-dir ./portcullis-data --all";

/// Runs the command.
///
/// # Errors
/// Flags are invalid, or the store cannot be read or written.
pub(super) async fn run(args: &RewriteArgs) -> Result<ExitCode, Failure> {
    // Events keep the lease that they have.
    let content = args.store.content(Duration::ZERO).await?;
    let mut progress = Progress::new("looked at");
    let done = content.rewrite(args.all, &mut |done, total| progress.at(done, total)).await?;
    for unreadable in &done.unreadable {
        report(&mut progress, unreadable);
    }
    drop(progress);
    writeln!(
        std::io::stdout().lock(),
        "{}: {} read, {} rewritten, {} cannot be read",
        args.store.describe(),
        counted(done.read, "value"),
        done.written,
        done.unreadable.len()
    )?;
    Ok(ExitCode::from(u8::from(!done.unreadable.is_empty())))
}
