//! The seeds that the plug-in has decrypted, so that it is not asked again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::envelope::SeedKind;
use crate::encryption::cipher::{AesGcm, Cipher, CipherError, ExtendedNonce};

/// The most seeds that are kept. Every start of a server and every new key of the plug-in adds one.
const MOST: usize = 1_000;

/// See the module. Clones share the seeds.
#[derive(Clone, Default)]
pub(super) struct Seeds(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    ciphers: HashMap<Vec<u8>, Arc<dyn Cipher>>,
    /// The digests of the sources, oldest first.
    order: VecDeque<Vec<u8>>,
}

/// The cipher of a decrypted seed or key.
pub(super) fn cipher(kind: SeedKind, seed: &[u8]) -> Result<Arc<dyn Cipher>, CipherError> {
    Ok(match kind {
        SeedKind::Key => Arc::new(AesGcm::new(seed)?),
        SeedKind::Seed => Arc::new(ExtendedNonce::new(seed)?),
    })
}

impl Seeds {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, digest: &[u8]) -> Option<Arc<dyn Cipher>> {
        self.known().ciphers.get(digest).cloned()
    }

    /// Adds a seed. If there are too many, the one that was added first is forgotten.
    pub(super) fn add(&self, digest: Vec<u8>, cipher: Arc<dyn Cipher>) {
        let mut known = self.known();
        if known.ciphers.insert(digest.clone(), cipher).is_none() {
            known.order.push_back(digest);
        }
        if known.order.len() > MOST
            && let Some(oldest) = known.order.pop_front()
        {
            known.ciphers.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_seed_is_forgotten_when_there_are_too_many() {
        let seeds = Seeds::default();
        for number in 0..=MOST {
            seeds.add(number.to_le_bytes().to_vec(), cipher(SeedKind::Seed, &[1; 32]).unwrap());
            seeds.add(number.to_le_bytes().to_vec(), cipher(SeedKind::Seed, &[1; 32]).unwrap());
        }
        let has = |number: usize| seeds.get(&number.to_le_bytes()).is_some();
        assert!(!has(0) && (1..=MOST).all(has));
    }
}
