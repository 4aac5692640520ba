//! The list of existing credentials, for people and for programs (NB-37). It contains no tokens.

use std::io::Write as _;
use std::iter;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use crate::failure::Failure;
use crate::table;

/// The flags for the output format of a list.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct FormFlags {
    /// Print one JSON object per line
    #[arg(long)]
    pub(super) json: bool,
}

/// A credential.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    /// `control-plane`, `worker` or `token`.
    pub(super) kind: &'static str,
    /// The holder, or the name of the authority.
    pub(super) subject: String,
    /// The digest of the authority's certificate, or of the token.
    pub(super) sha256: String,
    /// The expiry in RFC 3339; `never` if there is none, `unknown` if it is no longer known.
    pub(super) not_after: String,
    pub(super) revoked: bool,
    /// The location, or the state.
    pub(super) note: String,
}

/// Formats a time for lists.
pub(super) fn time(at: SystemTime) -> String {
    let printed = Timestamp::try_from(at).and_then(|at| at.round(jiff::Unit::Second));
    printed.map_or_else(|_| "unknown".to_owned(), |at| at.to_string())
}

/// Returns the SHA-256 digest of some bytes, in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    portcullis_pki::sha256(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Prints credentials.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn print(rows: &[Row], form: FormFlags) -> Result<ExitCode, Failure> {
    if form.json {
        print_json(rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let words = |row: &Row| {
        let revoked = if row.revoked { "yes" } else { "no" };
        let cells = [row.kind, &row.subject, &row.sha256, &row.not_after, revoked, &row.note];
        // Values written by others must not contain control characters.
        cells.map(|cell| cell.chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>())
    };
    let heads = ["KIND", "SUBJECT", "SHA256", "NOT-AFTER", "REVOKED", "NOTE"].map(str::to_owned);
    let lines: Vec<Vec<String>> = iter::once(heads).chain(rows.iter().map(words)).map(Vec::from).collect();
    table::columns(&mut std::io::stdout().lock(), &lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints one JSON object per line.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn print_json(rows: &[impl Serialize]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for row in rows {
        serde_json::to_writer(&mut out, row).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}
