//! A chip with an attestation key and a kubelet's key, made by tpm2-tools (ST, section 3).

use std::fs;
use std::path::PathBuf;

use portcullis_pki::tpm::{CreationData, PublicArea, Statement};
use portcullis_testkit::software_tpm::{Manufacturer, SoftwareTpm};

/// The nonce of the tests, in hexadecimal digits.
pub(crate) const NONCE: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A chip on a bench, with a folder for files.
pub(crate) struct Bench {
    pub(crate) manufacturer: Manufacturer,
    pub(crate) chip: SoftwareTpm,
    folder: PathBuf,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let manufacturer = Manufacturer::new();
        let chip = manufacturer.make("node-a");
        let folder = manufacturer.folder().join("work");
        fs::create_dir(&folder).unwrap();
        Self { manufacturer, chip, folder }
    }

    /// Another chip of the same manufacturer.
    pub(crate) fn other(&self) -> SoftwareTpm {
        self.manufacturer.make("node-b")
    }

    /// Runs a tool against the chip. It must succeed.
    #[track_caller]
    pub(crate) fn run(&self, words: &str) -> String {
        self.chip.tool(&self.folder, words)
    }

    /// Whether a tool succeeds.
    pub(crate) fn succeeds(&self, words: &str) -> bool {
        let done = self.chip.try_tool(&self.folder, words).code == 0;
        self.chip.try_tool(&self.folder, "tpm2_flushcontext -t").ok();
        done
    }

    #[track_caller]
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.folder.join(name), bytes).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    #[track_caller]
    pub(crate) fn public(&self, name: &str) -> PublicArea {
        PublicArea::parse(&self.read(name)).unwrap()
    }

    #[track_caller]
    pub(crate) fn statement(&self, name: &str) -> Statement {
        Statement::parse(&self.read(name)).unwrap()
    }

    /// Creation data. The tool writes its length in front (ST-25).
    #[track_caller]
    pub(crate) fn creation_data(&self, name: &str) -> CreationData {
        CreationData::parse(&self.read(name)[2..]).unwrap()
    }

    /// Makes `ak.pub`, `ak.name` and `ak.ctx`: an attestation key under the RSA endorsement key.
    pub(crate) fn make_attestation_key(&self, algorithm: &str, scheme: &str) {
        self.run(&format!(
            "tpm2_createak -C 0x81010001 -c ak.ctx -G {algorithm} -g sha256 -s {scheme} -u ak.pub -n ak.name -r ak.priv"
        ));
    }

    /// Makes `key.pub`, `key.ctx`, `key.cdata`, `key.chash` and `key.ticket`: a key that cannot leave the chip.
    pub(crate) fn make_key(&self) {
        self.run("tpm2_createprimary -C o -G ecc -c srk.ctx");
        self.run(&format!(
            "tpm2_create -C srk.ctx -G ecc256:ecdsa-sha256 -g sha256 -a \
             fixedtpm|fixedparent|sensitivedataorigin|userwithauth|sign -u key.pub -r key.priv --creation-data \
             key.cdata -d key.chash -t key.ticket -q {NONCE} -l sha256:0,7"
        ));
        self.run("tpm2_load -C srk.ctx -u key.pub -r key.priv -c key.ctx");
    }
}
