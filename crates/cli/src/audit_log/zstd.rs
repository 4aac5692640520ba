//! Reads what zstd has compressed: frames one after the other, as `cat a.zst b.zst` makes them.
//!
//! A frame may demand a window of 100 MiB at most: what a file makes us hold is bounded.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The bytes that every frame begins with.
pub(super) const MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// How much is decoded ahead. In bytes.
const AHEAD: usize = 1 << 17;

/// See the module.
pub(super) struct Decoder<R> {
    source: R,
    frame: FrameDecoder,
    is_in_frame: bool,
}

impl<R: BufRead> Decoder<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, frame: FrameDecoder::new(), is_in_frame: false }
    }

    /// Begins the next frame. Returns whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.frame.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(damaged(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_in_frame {
                self.is_in_frame = self.begin()?;
                if !self.is_in_frame {
                    return Ok(0);
                }
            }
            let count = self.frame.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            if self.frame.is_finished() {
                let sums = (self.frame.get_checksum_from_data(), self.frame.get_calculated_checksum());
                if let (Some(told), Some(found)) = sums
                    && told != found
                {
                    return Err(damaged("the checksum of a frame is wrong"));
                }
                self.is_in_frame = false;
                continue;
            }
            let ahead = BlockDecodingStrategy::UptoBytes(AHEAD);
            self.frame.decode_blocks(&mut self.source, ahead).map_err(damaged)?;
        }
    }
}

fn damaged(error: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}
