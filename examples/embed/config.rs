//! The sizes of the model, from its config.json.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::Result;

/// What the network is built from; the file's other entries do not change what it computes.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Config {
    pub(crate) model_type: String,
    pub(crate) hidden_act: String,
    pub(crate) position_embedding_type: Option<String>,
    pub(crate) hidden_size: i64,
    pub(crate) intermediate_size: i64,
    pub(crate) num_attention_heads: i64,
    pub(crate) num_hidden_layers: i64,
    pub(crate) max_position_embeddings: i64,
    pub(crate) type_vocab_size: i64,
    pub(crate) vocab_size: i64,
    pub(crate) layer_norm_eps: f64,
}

impl Config {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|error| format!("{}: {error}", path.display()).into())
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let config: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    /// Another architecture would load in part and compute nonsense.
    fn check(&self) -> std::result::Result<(), String> {
        let position = self.position_embedding_type.as_deref().unwrap_or("absolute");
        let words = [
            ("model_type", &*self.model_type, "bert"),
            ("hidden_act", &*self.hidden_act, "gelu"),
            ("position_embedding_type", position, "absolute"),
        ];
        if let Some((name, value, right)) = words.into_iter().find(|(_, value, right)| value != right) {
            return Err(format!("{name} {value:?}: only {right:?} is implemented"));
        }
        if let Some((name, value)) = self.sizes().into_iter().find(|(_, value)| *value < 1) {
            return Err(format!("{name} {value}: must be at least 1"));
        }
        let (size, heads) = (self.hidden_size, self.num_attention_heads);
        if size % heads != 0 {
            return Err(format!("hidden_size {size}: must be a multiple of num_attention_heads {heads}"));
        }
        Ok(())
    }

    fn sizes(&self) -> [(&'static str, i64); 7] {
        [
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_attention_heads", self.num_attention_heads),
            ("num_hidden_layers", self.num_hidden_layers),
            ("max_position_embeddings", self.max_position_embeddings),
            ("type_vocab_size", self.type_vocab_size),
            ("vocab_size", self.vocab_size),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = r#"{"model_type": "bert", "hidden_act": "gelu", "hidden_size": 8, "intermediate_size": 16,
        "num_attention_heads": 2, "num_hidden_layers": 1, "max_position_embeddings": 32, "type_vocab_size": 2,
        "vocab_size": 100, "layer_norm_eps": 1e-12, "use_cache": true}"#;

    #[test]
    fn a_description_of_the_model_is_read() {
        assert_eq!(Config::parse(RIGHT).unwrap().intermediate_size, 16);
    }

    #[test]
    fn another_model_is_refused_by_name_and_value() {
        let cases = [
            ("\"bert\"", "\"roberta\"", "model_type \"roberta\": only \"bert\" is implemented"),
            ("\"gelu\"", "\"gelu_new\"", "hidden_act \"gelu_new\": only \"gelu\" is implemented"),
            (
                "\"hidden_size\": 8",
                "\"hidden_size\": 7",
                "hidden_size 7: must be a multiple of num_attention_heads 2",
            ),
            (
                "\"num_attention_heads\": 2",
                "\"num_attention_heads\": 0",
                "num_attention_heads 0: must be at least 1",
            ),
            ("\"vocab_size\"", "\"words\"", "missing field `vocab_size`"),
            ("\"hidden_size\": 8", "\"hidden_size\": \"8\"", "invalid type: string"),
        ];
        for (part, other, says) in cases {
            let error = Config::parse(&RIGHT.replacen(part, other, 1)).unwrap_err();
            assert!(error.contains(says), "{other}: {error}");
        }
        let relative = RIGHT.replacen('{', "{\"position_embedding_type\": \"relative_key\",", 1);
        assert!(Config::parse(&relative).unwrap_err().contains("relative_key"));
    }
}
