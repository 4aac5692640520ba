//! Reads audit logs into what the findings need of them (AU-16).

use std::path::PathBuf;

use portcullis_policy::audit::findings::Usage;
use portcullis_policy::rehearsal::{AuditEvent, each_event};

use crate::audit_log::{AuditLogs, Line};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::terminal::plain;

/// How many damaged lines are named.
const NAMED: u64 = 20;

/// Takes every event of the logs. Lines that cannot be read are named, and noted: what they would have shown is not known.
///
/// # Errors
/// A file cannot be read.
pub(super) fn read(paths: &[PathBuf], usage: &mut Usage<'_>) -> Result<(), Failure> {
    let logs = AuditLogs::find(paths)?;
    let mut progress = Progress::new("kilobytes of the audit log read");
    let mut damaged = 0_u64;
    logs.each(&mut |path, line| {
        let fault = match line {
            Line::Text(number, text) => {
                let mut first = None;
                let mut take = |event: Result<AuditEvent<'_>, String>| match event {
                    Ok(event) => usage.take(&event),
                    Err(reason) => drop(first.get_or_insert(reason)),
                };
                let read = each_event(text, &mut take);
                read.err().map(|error| error.to_string()).or(first).map(|reason| (number, reason))
            }
            Line::Damaged(number, reason) => Some((number, reason)),
        };
        if let Some((number, reason)) = fault {
            damaged += 1;
            if damaged <= NAMED {
                progress.clear();
                eprintln!("warning: {}:{number}: {}", path.display(), plain(&reason));
            }
        }
        if let Some((done, total)) = logs.progress() {
            progress.at(done / 1024, total / 1024);
        }
    })?;
    progress.clear();
    if damaged > NAMED {
        eprintln!("warning: {} more lines cannot be read", damaged - NAMED);
    }
    if damaged > 0 {
        usage.note_damage();
    }
    Ok(())
}
