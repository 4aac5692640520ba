//! Looks through a filtered collection without keeping others from their turn.

use crate::api::large_work::{LARGE, LargeWork};
use crate::http::account::Account;
use crate::registry::filtered::{Filtered, Scan, ScanError};

/// How many objects are decided about at once, on the thread of the request.
const FEW: usize = 128;
/// How many objects are decided about in one turn of large work.
const MANY: usize = 4_096;

/// Completes a scan. After a short first part each part is work in turn.
///
/// # Errors
/// See [`Filtered::step`].
pub(super) async fn complete(
    turns: &LargeWork,
    account: Account,
    filtered: &Filtered,
    scan: &mut Scan,
) -> Result<(), ScanError> {
    let mut is_complete = filtered.step(scan, FEW).await?;
    while !is_complete {
        is_complete = turns.run(account, LARGE, filtered.step(scan, MANY)).await?;
    }
    Ok(())
}
