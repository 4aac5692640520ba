//! Random bytes for secrets.

use aws_lc_rs::rand;

use crate::key::KeyError;

/// Returns random bytes.
///
/// # Errors
/// The system has no randomness.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], KeyError> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| KeyError::Generate)?;
    Ok(bytes)
}
