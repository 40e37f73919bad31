"""Atomic changes as Lua scripts, which Redis runs one at a time.

A table is three hashes: KEYS[1] key -> value, KEYS[2] index -> key, KEYS[3] key -> index.
An absent index travels as the empty string.
"""

from __future__ import annotations

# ARGV: key, value, index of each document. Returns an outcome per document.
CREATED, KEY_TAKEN, INDEX_TAKEN = range(3)
CREATE_MANY = """
local outcomes = {}
for i = 1, #ARGV, 3 do
  local key, value, index = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local outcome = 0
  if index ~= '' and redis.call('HEXISTS', KEYS[2], index) == 1 then
    outcome = 2
  elseif redis.call('HSETNX', KEYS[1], key, value) == 0 then
    outcome = 1
  elseif index ~= '' then
    redis.call('HSET', KEYS[2], index, key)
    redis.call('HSET', KEYS[3], key, index)
  end
  outcomes[#outcomes + 1] = outcome
end
return outcomes
"""

# ARGV: index. Returns the value or nil.
GET_BY_INDEX = """
local key = redis.call('HGET', KEYS[2], ARGV[1])
return key and redis.call('HGET', KEYS[1], key)
"""

# ARGV: key, value, index. Returns an outcome.
REPLACED, KEY_UNKNOWN, NEW_INDEX_TAKEN = range(3)
REPLACE = """
local key, value, index = ARGV[1], ARGV[2], ARGV[3]
if redis.call('HEXISTS', KEYS[1], key) == 0 then return 1 end
local holder = index ~= '' and redis.call('HGET', KEYS[2], index)
if holder and holder ~= key then return 2 end
local old_index = redis.call('HGET', KEYS[3], key)
if old_index and old_index ~= index then
  redis.call('HDEL', KEYS[2], old_index)
  redis.call('HDEL', KEYS[3], key)
end
redis.call('HSET', KEYS[1], key, value)
if index ~= '' and old_index ~= index then
  redis.call('HSET', KEYS[2], index, key)
  redis.call('HSET', KEYS[3], key, index)
end
return 0
"""

# ARGV: index. Returns the number of documents deleted.
DELETE_BY_INDEX = """
local key = redis.call('HGET', KEYS[2], ARGV[1])
if not key then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], key)
return redis.call('HDEL', KEYS[1], key)
"""

# ARGV: key of the condition, 1 or 0 for whether it has a document, its value; the number of puts,
# key and value of each; keys to delete. Returns whether the condition held.
# Puts come first: a server without memory refuses only the first write of a script.
CHANGE = """
local function delete(key)
  local index = redis.call('HGET', KEYS[3], key)
  if index then
    redis.call('HDEL', KEYS[2], index)
    redis.call('HDEL', KEYS[3], key)
  end
  redis.call('HDEL', KEYS[1], key)
end
local found = redis.call('HGET', KEYS[1], ARGV[1])
if found ~= (ARGV[2] == '1' and ARGV[3]) then return 0 end
local deletes = 5 + 2 * ARGV[4]
for i = 5, deletes - 1, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
for i = deletes, #ARGV do delete(ARGV[i]) end
return 1
"""

# Migrates the data, unless they are newer, and returns their version.
# KEYS: the schema's version. ARGV: the newest version. Data without a version are of the first.
# There is a block for each version after the first; a released one never changes.
NEWEST = 2
MIGRATE = """
local found = redis.call('GET', KEYS[1])
local version = tonumber(found or '1')
if version > tonumber(ARGV[1]) then return version end
if version < 2 then  -- snapshots of hidden states in an obsolete form
  redis.call('UNLINK', 'greenwave:{hidden_states}:documents', 'greenwave:{hidden_states}:keys',
    'greenwave:{hidden_states}:indexes')
end
if found ~= ARGV[1] then redis.call('SET', KEYS[1], ARGV[1]) end
return tonumber(ARGV[1])
"""

# KEYS: counter. ARGV: lifetime in milliseconds. Returns the count.
INCREMENT = """
local count = redis.call('INCR', KEYS[1])
local left = redis.pcall('PTTL', KEYS[1])  -- a user of an earlier release may not ask
-- longer than a lifetime: the server's clock was set back meanwhile
if count == 1 or (type(left) == 'number' and left > tonumber(ARGV[1])) then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return count
"""

# KEYS: a hash, its copy. ARGV: milliseconds after which an abandoned copy removes itself.
COPY_HASH = """
if redis.call('COPY', KEYS[1], KEYS[2]) == 0 then return 0 end
return redis.call('PEXPIRE', KEYS[2], ARGV[1])
"""
