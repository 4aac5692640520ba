//! Damages inputs, the same way each time for the same seed.
//!
//! Coverage-guided fuzzing needs a compiler that is not the pinned one; this needs none, runs everywhere, and finds
//! what parsers most often get wrong: truncation, repetition, depth, extreme numbers and bytes that are not UTF-8.

/// A xorshift generator: not for secrets, but the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds are spread, and the one state that xorshift never leaves is avoided.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`; 0 when there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            return 0;
        }
        usize::try_from(self.number() % bound as u64).expect("below a usize")
    }

    /// One of the elements.
    pub fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }
}

/// A number that looks random, the same for the same seed.
pub fn dice(seed: u64) -> u64 {
    Random::new(seed).number()
}

/// Inputs are kept below this many bytes, so that a run sees many of them.
const MAX_BYTES: usize = 64 * 1024;

/// Numbers at the limits of types.
const EXTREMES: &[&str] = &[
    "0",
    "-0",
    "-1",
    "1e999",
    "-1e-999",
    "0.1",
    "127",
    "128",
    "255",
    "256",
    "32768",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "00",
    "0x7f",
    "1_000",
    "NaN",
    "9999999999999999999999999999",
];

/// Pieces that open and close something in one of the formats read.
const BRACKETS: &[(&str, &str)] =
    &[("[", "]"), ("{\"a\":", "}"), ("- ", ""), ("{a: ", "}"), ("(", ")"), ("\"", "\""), ("%25", "")];

/// Byte sequences that are not UTF-8, or that confuse parsers of text.
const NO_TEXT: &[&[u8]] = &[
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    b"\x80",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\r\n",
    b"\x1b[2J",
    b"\\ud800",
    b"\\u0000",
];

/// Makes a damaged copy of a corpus entry: one to eight changes, each from a fixed set. `dictionary` holds words of the
/// format.
pub fn mutate(random: &mut Random, corpus: &[Vec<u8>], dictionary: &[&str]) -> Vec<u8> {
    let mut input = random.pick(corpus).clone();
    let changes = 1 + random.below(8);
    for _ in 0..changes {
        change(random, &mut input, corpus, dictionary);
        input.truncate(MAX_BYTES);
    }
    input
}

fn change(random: &mut Random, input: &mut Vec<u8>, corpus: &[Vec<u8>], dictionary: &[&str]) {
    let at = random.below(input.len() + 1);
    match random.below(12) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => insert(input, at, &[random.number() as u8]),
        2 => {
            let end = (at + 1 + random.below(16)).min(input.len());
            input.drain(at..end);
        }
        3 => input.truncate(at),
        4 => {
            let end = (at + random.below(256)).min(input.len());
            let copy = input[at..end].to_vec();
            insert(input, random.below(input.len() + 1), &copy);
        }
        5 => {
            let other = random.pick(corpus);
            let from = random.below(other.len() + 1);
            let end = (from + random.below(512)).min(other.len());
            input.truncate(at.max(1));
            input.extend_from_slice(&other[from..end]);
        }
        6 => {
            let other = random.pick(corpus).clone();
            insert(input, at, &other);
        }
        7 if !dictionary.is_empty() => insert(input, at, random.pick(dictionary).as_bytes()),
        8 => replace_number(random, input, at),
        9 => {
            let (open, close) = random.pick(BRACKETS);
            let depth = *random.pick(&[1, 2, 63, 64, 65, 127, 128, 1_000, 20_000]);
            insert(input, at, close.repeat(if random.below(2) == 0 { depth } else { 0 }).as_bytes());
            insert(input, at, open.repeat(depth).as_bytes());
        }
        10 => insert(input, at, random.pick::<&[u8]>(NO_TEXT)),
        _ => swap_lines(random, input),
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let at = at.min(input.len());
    input.splice(at..at, bytes.iter().copied());
}

/// Replaces the next digits by an extreme number, or inserts one.
fn replace_number(random: &mut Random, input: &mut Vec<u8>, at: usize) {
    let start = input[at..].iter().position(u8::is_ascii_digit).map_or(at, |found| at + found);
    let end = start + input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    input.splice(start..end, random.pick(EXTREMES).bytes());
}

/// Swaps two lines.
fn swap_lines(random: &mut Random, input: &mut Vec<u8>) {
    let mut lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let (one, other) = (random.below(lines.len()), random.below(lines.len()));
    lines.swap(one, other);
    *input = lines.join(&b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(seed: u64) -> Vec<Vec<u8>> {
        let corpus = vec![b"{\"a\":[1,2,3]}".to_vec(), b"line one\nline 2\n".to_vec(), Vec::new()];
        let mut random = Random::new(seed);
        (0..500).map(|_| mutate(&mut random, &corpus, &["word"])).collect()
    }

    #[test]
    fn equal_seeds_give_equal_inputs_and_others_do_not() {
        assert_eq!(inputs(7), inputs(7));
        assert_ne!(inputs(7), inputs(8));
    }

    #[test]
    fn damage_has_every_form_that_it_claims() {
        let inputs = inputs(1);
        let some = |property: &dyn Fn(&[u8]) -> bool| inputs.iter().any(|input| property(input));
        assert!(some(&|input| std::str::from_utf8(input).is_err()), "bytes that are no text");
        assert!(some(&|input| input.len() > 20_000), "depth");
        assert!(some(&|input| input.windows(4).any(|w| w == b"word")), "dictionary");
        assert!(some(&|input| input.windows(4).any(|w| w == b"line") && input.contains(&b'{')), "splices");
        assert!(some(&|input| input.windows(5).any(|w| w == b"1e999")), "extremes");
        assert!(some(&|input| input.is_empty()), "cuts");
        assert!(inputs.iter().all(|input| input.len() <= MAX_BYTES), "bounded");
    }
}
