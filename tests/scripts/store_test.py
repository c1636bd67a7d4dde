"""lib/store.py: what stands in a file after its writing has failed."""

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from lib import store  # noqa: E402


class Written(unittest.TestCase):
    def test_a_file_that_cannot_be_replaced_stays_with_nothing_beside_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "h999.json")
            store.write_document(path, {"gpu": "H999"}, rows=[{"m": 1}])
            before = path.read_text(encoding="utf-8")
            for failure in (OSError(28, "No space left on device"), KeyboardInterrupt()):
                with mock.patch.object(store.os, "replace", side_effect=failure):
                    with self.assertRaises(type(failure)):
                        store.write_document(path, {"gpu": "H999"}, rows=[])
                self.assertEqual([each.name for each in Path(folder).iterdir()], ["h999.json"])
                self.assertEqual(path.read_text(encoding="utf-8"), before)


if __name__ == "__main__":
    unittest.main()
