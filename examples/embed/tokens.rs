//! From texts to the numbers of their words.

use std::path::Path;

use tokenizers::{Tokenizer, TruncationParams};

use crate::Result;
use crate::config::Config;

/// The tokens of one text: at least the two marks around it, at most [`MOST`].
pub(crate) type Tokens = Vec<u32>;

/// Tokens of a text that the model was trained for; what comes after them is not seen.
const MOST: usize = 256;

/// Texts at a time: what the tokenizer notes down beside the numbers is many times larger.
const AT_ONCE: usize = 1024;

pub(crate) struct Words {
    tokenizer: Tokenizer,
}

impl Words {
    pub(crate) fn read(path: &Path, config: &Config) -> Result<Self> {
        let say = |error| format!("{}: {error}", path.display());
        let mut tokenizer = Tokenizer::from_file(path).map_err(say)?;
        let (known, words) = (tokenizer.get_vocab_size(true), config.vocab_size);
        if i64::try_from(known)? > words {
            return Err(say(format!("{known} words, the model of config.json has {words}").into()).into());
        }
        let positions = usize::try_from(config.max_position_embeddings)?;
        let truncation = TruncationParams { max_length: MOST.min(positions), ..TruncationParams::default() };
        // The file asks for 128 tokens, always; we pad when it is known what shares a batch.
        tokenizer.with_truncation(Some(truncation)).map_err(say)?.with_padding(None);
        Ok(Self { tokenizer })
    }

    pub(crate) fn tokens<S: AsRef<str>>(&self, texts: &[S]) -> Result<Vec<Tokens>> {
        let mut tokens = Vec::with_capacity(texts.len());
        for texts in texts.chunks(AT_ONCE) {
            let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
            let encodings =
                self.tokenizer.encode_batch_fast(texts, true).map_err(|error| error.to_string())?;
            tokens.extend(encodings.iter().map(|encoding| encoding.get_ids().to_vec()));
        }
        Ok(tokens)
    }
}
