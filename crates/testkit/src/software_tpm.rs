//! Software TPMs (`swtpm`), manufactured as chips are: with seeds, endorsement keys, and certificates of an authority
//! (ST-10 to ST-17, ST-50 to ST-53).
//!
//! Everything lies in one temporary folder, and stops when it is dropped. The tools of `tpm2-tools` are the referee:
//! [`SoftwareTpm::tool`] runs them against the chip.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::scratch::Scratch;
use crate::tool::{self, Finished};

/// The manufacturer: one folder with an authority for endorsement keys, and the chips that it made.
#[derive(Debug)]
pub struct Manufacturer {
    scratch: Scratch,
}

/// A chip that runs. It stops when this is dropped; its state remains until the [`Manufacturer`] is dropped.
#[derive(Debug)]
pub struct SoftwareTpm {
    folder: PathBuf,
    name: String,
    /// The process, while it runs. The folder may be gone before the chip is.
    process: Mutex<Option<String>>,
}

impl Manufacturer {
    /// Prepares an authority. It is made with the first chip.
    #[expect(clippy::new_without_default, reason = "creating a folder is a side effect")]
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let folder = scratch.path().display().to_string();
        fs::create_dir(scratch.path().join("ca")).expect("a new folder");
        scratch.write(
            "localca.conf",
            format!(
                "statedir = {folder}/ca\nsigningkey = {folder}/ca/signkey.pem\nissuercert = {folder}/ca/issuercert.pem\n\
                 certserial = {folder}/ca/certserial\n"
            ),
        );
        scratch.write(
            "localca.options",
            "--platform-manufacturer Example\n--platform-version 1.0\n--platform-model SoftTPM\n",
        );
        scratch.write(
            "setup.conf",
            format!(
                "create_certs_tool = {}\ncreate_certs_tool_config = {folder}/localca.conf\n\
                 create_certs_tool_options = {folder}/localca.options\nactive_pcr_banks = sha256\n",
                find("swtpm_localca").display()
            ),
        );
        Self { scratch }
    }

    /// The folder with everything. Tests may put their files here.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// The root certificate of the authority, PEM. There is one once there is a chip.
    pub fn root(&self) -> PathBuf {
        self.folder().join("ca/swtpm-localca-rootca-cert.pem")
    }

    /// The intermediate certificate, which issues the certificates of endorsement keys. PEM.
    pub fn issuer(&self) -> PathBuf {
        self.folder().join("ca/issuercert.pem")
    }

    /// Makes a chip of this name, and starts it.
    #[track_caller]
    pub fn make(&self, name: &str) -> SoftwareTpm {
        let folder = self.folder();
        let state = folder.join(name);
        fs::create_dir(&state).unwrap_or_else(|e| panic!("{}: {e}", state.display()));
        let mut setup = tool::command("swtpm_setup");
        setup.arg("--tpm2").arg("--tpmstate").arg(&state).arg("--config").arg(folder.join("setup.conf"));
        setup.args(["--createek", "--create-ek-cert", "--overwrite", "--vmid", name]);
        setup.arg("--logfile").arg(folder.join(format!("{name}.log")));
        let made = Finished::of(&mut setup);
        let log = fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default();
        assert_eq!(made.code, 0, "{made:#?}\n{log}");
        let tpm = SoftwareTpm { folder: folder.to_owned(), name: name.to_owned(), process: Mutex::default() };
        tpm.start();
        tpm
    }

    /// Copies the state of a stopped or running chip to another name, and starts that: the same endorsement keys twice
    /// (ST-51).
    #[track_caller]
    pub fn clone_of(&self, tpm: &SoftwareTpm, name: &str) -> SoftwareTpm {
        let state = self.folder().join(name);
        fs::create_dir(&state).unwrap_or_else(|e| panic!("{}: {e}", state.display()));
        let file = "tpm2-00.permall";
        fs::copy(self.folder().join(&tpm.name).join(file), state.join(file)).expect("the state of the chip");
        let clone = SoftwareTpm {
            folder: self.folder().to_owned(),
            name: name.to_owned(),
            process: Mutex::default(),
        };
        clone.start();
        clone
    }
}

impl SoftwareTpm {
    /// The socket that commands are sent to.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(format!("{}.sock", self.name))
    }

    /// The value of `TPM2TOOLS_TCTI` for this chip (ST-20).
    pub fn connection(&self) -> String {
        format!("swtpm:path={}", self.socket().display())
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.join(format!("{}.pid", self.name))
    }

    /// Starts the chip, as when a machine is switched on.
    #[track_caller]
    pub fn start(&self) {
        let socket = self.socket();
        let control = PathBuf::from(format!("{}.ctrl", socket.display()));
        assert!(control.as_os_str().len() < 108, "{} is too long for a socket", control.display());
        for stale in [&socket, &control] {
            let _ = fs::remove_file(stale);
        }
        let mut command = tool::command("swtpm");
        command.arg("socket").arg("--tpm2");
        command.arg("--tpmstate").arg(format!("dir={}", self.folder.join(&self.name).display()));
        command.arg("--server").arg(format!("type=unixio,path={}", socket.display()));
        command.arg("--ctrl").arg(format!("type=unixio,path={}", control.display()));
        command.args(["--flags", "not-need-init,startup-clear", "--daemon"]);
        command.arg("--pid").arg(format!("file={}", self.pid_file().display()));
        Finished::of(&mut command).ok();
        crate::wait::until("the chip listens", || socket.exists());
        let process = crate::wait::until_some("the chip has a process", || {
            let text = fs::read_to_string(self.pid_file()).ok()?;
            let id = text.trim().to_owned();
            (!id.is_empty()).then_some(id)
        });
        *self.process() = Some(process);
    }

    /// Stops the chip, as when a machine is switched off: what is not persistent is gone.
    pub fn stop(&self) {
        let Some(process) = self.process().take() else { return };
        let _ = Command::new("kill").arg(&process).status();
        for _ in 0..200 {
            if !Path::new("/proc").join(&process).exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = fs::remove_file(self.pid_file());
    }

    fn process(&self) -> MutexGuard<'_, Option<String>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restarts the chip: saved contexts die, blobs can be loaded again, `resetCount` grows (ST-27, ST-28).
    #[track_caller]
    pub fn restart(&self) {
        self.stop();
        self.start();
    }

    /// Sends a command with sessions, and returns what follows the header of the answer, which must be a success.
    #[track_caller]
    fn command(&self, code: u32, parameters: &[u8]) -> Vec<u8> {
        let mut socket = UnixStream::connect(self.socket()).expect("the chip listens");
        let size = u32::try_from(parameters.len() + 10).expect("a short command").to_be_bytes();
        let command = [&[0x80, 0x02][..], &size, &code.to_be_bytes(), parameters].concat();
        socket.write_all(&command).expect("the chip reads");
        let mut answer = vec![0; 4096];
        let length = socket.read(&mut answer).expect("the chip answers");
        answer.truncate(length);
        assert_eq!(answer.get(6..10), Some(&[0; 4][..]), "{answer:02x?}");
        answer.split_off(10)
    }

    /// Runs a tool of `tpm2-tools` in a folder, with words that single spaces separate.
    #[track_caller]
    pub fn try_tool(&self, folder: &Path, words: &str) -> Finished {
        let mut words = words.split(' ');
        let mut command = tool::command(words.next().unwrap_or_default());
        command.args(words).current_dir(folder).env("TPM2TOOLS_TCTI", self.connection());
        Finished::of(&mut command)
    }

    /// As [`Self::try_tool`], which must succeed. Then removes what it loaded: the chip has room for three objects
    /// (ST-21).
    #[track_caller]
    pub fn tool(&self, folder: &Path, words: &str) -> String {
        let printed = self.try_tool(folder, words).ok();
        self.try_tool(folder, "tpm2_flushcontext -t").ok();
        printed
    }
}

impl Drop for SoftwareTpm {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A chip with a folder for the files of tools (ST, section 3).
#[derive(Debug)]
pub struct Bench {
    /// The manufacturer, to make more chips.
    pub manufacturer: Manufacturer,
    /// The chip.
    pub chip: SoftwareTpm,
    folder: PathBuf,
}

/// The handle of the attestation key while it certifies.
const ATTESTATION_KEY: u32 = 0x8000_0000;
/// The handle of the kubelet's key while it is certified.
const KEY: u32 = 0x8000_0001;

impl Bench {
    /// Makes a chip.
    #[expect(clippy::new_without_default, reason = "making a chip is a side effect")]
    pub fn new() -> Self {
        let manufacturer = Manufacturer::new();
        let chip = manufacturer.make("node-a");
        let folder = manufacturer.folder().join("work");
        fs::create_dir(&folder).expect("a new folder");
        Self { manufacturer, chip, folder }
    }

    /// Runs a tool against the chip. It must succeed.
    #[track_caller]
    pub fn run(&self, words: &str) -> String {
        self.chip.tool(&self.folder, words)
    }

    /// Whether a tool succeeds.
    pub fn succeeds(&self, words: &str) -> bool {
        let done = self.chip.try_tool(&self.folder, words).code == 0;
        self.chip.try_tool(&self.folder, "tpm2_flushcontext -t").ok();
        done
    }

    /// Reads a file of the folder.
    #[track_caller]
    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Writes a file to the folder.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.folder.join(name), bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes `ak.pub`, `ak.name`, `ak.priv` and `ak.ctx`: an attestation key under the RSA endorsement key.
    #[track_caller]
    pub fn make_attestation_key(&self, algorithm: &str, scheme: &str) {
        self.run(&format!(
            "tpm2_createak -C 0x81010001 -c ak.ctx -G {algorithm} -g sha256 -s {scheme} -u ak.pub -n ak.name -r ak.priv"
        ));
    }

    /// Makes `key.pub`, `key.priv`, `key.ctx`, `key.cdata`, `key.chash` and `key.ticket`: a signing key with these attributes.
    /// The creation data has the nonce, which is in hexadecimal digits. `more` are further options.
    #[track_caller]
    pub fn make_key(&self, attributes: &str, nonce: &str, more: &str) {
        self.run("tpm2_createprimary -C o -G ecc -c srk.ctx");
        self.run(&format!(
            "tpm2_create -C srk.ctx -G ecc256:ecdsa-sha256 -g sha256 -a {attributes} -u key.pub -r key.priv \
             --creation-data key.cdata -d key.chash -t key.ticket -q {nonce} -l sha256:0,7{more}"
        ));
        self.run("tpm2_load -C srk.ctx -u key.pub -r key.priv -c key.ctx");
    }

    /// Has the attestation key certify the kubelet's key with this data, which the tool has no option for (ST-23, ST-29).
    /// Returns the statement and the signature.
    #[track_caller]
    pub fn certify(&self, data: &[u8]) -> (Vec<u8>, Vec<u8>) {
        // Tools leave what they load in the chip, which numbers it from the first free handle.
        for context in ["ak.ctx", "key.ctx"] {
            self.chip.try_tool(&self.folder, &format!("tpm2_readpublic -c {context}")).ok();
        }
        // An empty password for each of the two keys.
        let password = [&0x4000_0009_u32.to_be_bytes()[..], &[0, 0, 0, 0, 0]].concat();
        let length = u16::try_from(data.len()).expect("short data").to_be_bytes();
        let parameters = [
            &KEY.to_be_bytes()[..],
            &ATTESTATION_KEY.to_be_bytes(),
            &18_u32.to_be_bytes(),
            &password,
            &password,
            &length,
            data,
            &[0x00, 0x10],
        ]
        .concat();
        let answer = self.chip.command(0x148, &parameters);
        self.chip.try_tool(&self.folder, "tpm2_flushcontext -t").ok();
        // The size of the parameters, then TPM2B_ATTEST and TPMT_SIGNATURE.
        let size = u32::from_be_bytes(answer[..4].try_into().expect("four bytes"));
        let parameters = &answer[4..4 + size as usize];
        let length = usize::from(u16::from_be_bytes(parameters[..2].try_into().expect("two bytes")));
        (parameters[2..2 + length].to_vec(), parameters[2 + length..].to_vec())
    }
}

#[track_caller]
fn find(name: &str) -> PathBuf {
    tool::require(name);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{name} is not on PATH"))
}
