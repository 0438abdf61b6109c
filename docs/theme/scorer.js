// Ranks the results of a search: a page whose words contain the whole query comes first. The first
// page of a name wins, so that the order here is the order of two pages with the same words.
const WORDS = {
  "own-data": "own my our your custom data dataset corpus file files train training model on csv tsv jsonl json text pairs parallel sentence sentences spreadsheet excel bring use",
  "install": "install installation setup pip conda cpu gpu cuda wheel extra extras",
  "fine-tuning": "fine finetune fine-tune fine-tuning tune tuning transfer adapt pretrained checkpoint",
  "serving": "serve server serving http api rest page docker deploy production",
  "decoding": "beam search greedy sampling translate decode decoding temperature length penalty",
  "evaluating": "evaluate evaluation score scores bleu chrf ter metric metrics attention",
  "tutorial": "write own new plugin architecture add model network tutorial",
  "export": "export onnx ctranslate2 huggingface engine convert",
  "formats/transformers": "import opus-mt marian bart nllb huggingface transformers checkpoint"
};

const IGNORED = new Set(["the", "a", "an", "to", "with", "in", "how", "do", "i", "of", "from", "and"]);

var Scorer = {
  score: (result) => {
    const [page, , , , score] = result;
    const query = new URLSearchParams(window.location.search).get("q") || "";
    const asked = query.toLowerCase().split(/[^\p{L}\p{N}-]+/u).filter((w) => w && !IGNORED.has(w));
    const known = new Set((WORDS[page] || "").split(" "));
    if (!asked.length || !asked.every((word) => known.has(word))) return score;
    return score + 100 - Object.keys(WORDS).indexOf(page);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
