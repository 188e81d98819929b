// What was used, and what it costs.
import type { SandboxUsage, UsageReport, WalletEntryPage, WalletInfo } from '../wire';
import { part, request, url } from './client';

export interface UsageAsked {
  from: string;
  to: string;
  group: string;
}

export const getUsage = (asked: UsageAsked, signal?: AbortSignal) =>
  request<UsageReport>('GET', '/usage', { query: { ...asked }, signal });

/** The same as a file of CSV. */
export const usageCsv = (asked: UsageAsked): string => url('/usage', { ...asked, format: 'csv' });

export const getSandboxUsage = (id: string, signal?: AbortSignal) =>
  request<SandboxUsage>('GET', `/sandboxes/${part(id)}/usage`, { signal });

export const getWallet = (signal?: AbortSignal) => request<WalletInfo>('GET', '/wallet', { signal });

export const getWalletEntries = (signal?: AbortSignal) =>
  request<WalletEntryPage>('GET', '/wallet/entries', { query: { limit: 20 }, signal });
